"""Rows are asked with as they stand in the raw files: what conversion cleans, serving must clean too."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping

import numpy as np
import pytest
import tensorflow as tf

from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.source import Source
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.schema import Schema
from pipeline.exporting import export
from pipeline.retraining.parity import skew
from pipeline.retraining.parity_rows import RawCells, first_rows, request_columns
from tests.shared.conversions import converted
from tests.shared.matrix import quick_cases
from tests.shared.people import SCHEMA, small_model

# By age, which is each row's own: as people write it, with blanks, line ends and marks of what is missing.
WORK = {age: (" Private", "?", '"State\nor so"')[age % 3] for age in range(20, 50)}
LINES = [f"{age} ,{work},{'ab'[age % 2]},{'yes' if age % 2 else 'no'}" for age, work in WORK.items()]
TEXT = "\n".join(["age,work,kind,rich", *LINES])


def dataset_of(
    folder: pathlib.Path, name: str, text: str, source: Source, *, schema: Schema = SCHEMA, **options: object
) -> Dataset:
    (folder / name).write_text(text)
    return converted(str(folder / name), folder / "out", source=source, schema=schema, **options)


def cells_by_age(dataset: Dataset) -> Mapping[int, Mapping[str, str]]:
    """What is found of every row of the train split, by the age that is stored."""
    sample = first_rows(select(dataset, "train"), 1000)
    ages = sample.columns["age"].numpy()
    return dict(zip(ages.astype(int).tolist(), RawCells(dataset).of(sample.places), strict=True))


def test_cells_of_csv_are_found_again(tmp_path):
    found = cells_by_age(dataset_of(tmp_path, "people.csv", TEXT, CsvFiles()))
    assert len(found) > 10
    for age, cells in found.items():
        assert cells["age"] == f"{age} "
        assert cells["work"] == WORK[age].strip('"')


@pytest.mark.slow
def test_cells_of_csv_with_an_escape_or_without_quotes_are_found_again(tmp_path):
    for quote, escape, work in (("none", "none", '"State'), ('"', "\\", 'a "big" one')):
        folder = tmp_path / str(len(work))
        folder.mkdir()
        written = work if quote == "none" else '"a \\"big\\" one"'
        lines = [f"{age},{written},a,{'yes' if age % 2 else 'no'}" for age in range(20, 50)]
        schema = dataclasses.replace(SCHEMA, raw_files={"quote": quote, "escape": escape})
        source = CsvFiles(quote=quote, escape=escape)
        text = "\n".join(["age,work,kind,rich", *lines])
        found = cells_by_age(dataset_of(folder, "people.csv", text, source, schema=schema))
        assert len(found) > 10
        assert {cells["work"] for cells in found.values()} == {work}


def test_files_without_a_header_and_of_tabs(tmp_path):
    names = ("age", "work", "kind", "rich")
    remembered = {"column_names": list(names), "delimiter": "\\t"}
    lines = "\n".join("\t".join(line.split(",")) for line in LINES)
    source = CsvFiles(column_names=names, delimiter="\t")
    schema = dataclasses.replace(SCHEMA, raw_files=remembered)
    found = cells_by_age(dataset_of(tmp_path, "people.tsv", lines, source, schema=schema))
    assert {age: cells["work"] for age, cells in found.items()} == {
        age: WORK[age].strip('"') for age in found
    }


def test_cells_of_json_lines_are_found_again(tmp_path):
    rows = [
        {"age": None if age % 5 == 0 else age, "work": "  State", "kind": "a", "rich": "yes", "weight": [1]}
        for age in range(20, 50)
    ]
    schema = dataclasses.replace(SCHEMA, ignore={"weight": "a list"})
    text = "\n".join(map(json.dumps, rows))
    dataset = dataset_of(tmp_path, "people.jsonl", text, JsonLines(), schema=schema)
    sample = first_rows(select(dataset, "train"), 1000)
    cells = RawCells(dataset).of(sample.places)
    assert {tuple(each) for each in cells} == {("age", "work", "kind", "rich")}
    columns = request_columns(sample, cells, SCHEMA)
    np.testing.assert_array_equal(columns["age"], sample.columns["age"].numpy())
    assert np.isnan(columns["age"]).any()
    assert set(columns["work"]) == {b"  State"}


@pytest.mark.parametrize(
    "damage", quick_cases(["gone", "changed", "no origins", "another encoding"], ["changed", "no origins"])
)
def test_what_cannot_be_read_again_is_asked_as_it_is_stored(damage, tmp_path):
    told = {"encoding": "latin-1"} if damage == "another encoding" else {}
    schema = dataclasses.replace(SCHEMA, raw_files=told)
    options = {"origins": damage != "no origins"}
    dataset = dataset_of(tmp_path, "people.csv", TEXT, CsvFiles(), schema=schema, **options)
    if damage == "gone":
        (tmp_path / "people.csv").unlink()
    if damage == "changed":
        (tmp_path / "people.csv").write_text(f"{TEXT}\n1,x,a,no")
    sample = first_rows(select(dataset, "train"), 1000)
    cells = RawCells(dataset).of(sample.places)
    assert set(cells) == {None}
    columns = request_columns(sample, cells, SCHEMA)
    assert set(columns["work"]) == {b"Private", b"", b"State\nor so"}


@pytest.mark.parametrize(
    ("cell", "value"),
    quick_cases(
        [("", math.nan), (" 31.5 ", 31.5), ("1e3", 1000.0), ("about 3", 7.0), ("inf", math.inf)],
        [(" 31.5 ", 31.5), ("about 3", 7.0)],
    ),
)
def test_a_number_is_what_a_client_reads_or_what_is_stored(cell, value, tmp_path):
    dataset = dataset_of(tmp_path, "people.csv", TEXT, CsvFiles())
    sample = first_rows(select(dataset, "train"), 1)
    stored = sample.columns["age"].numpy()[0]
    found = request_columns(sample, [{"age": cell}], SCHEMA)["age"][0]
    np.testing.assert_equal(found, np.float32(stored if cell == "about 3" else value))


def test_serving_that_cleans_otherwise_than_conversion_did_is_named(tmp_path, warm):
    """What is stored is clean, so it says nothing of this: only the files' own cells do."""
    dataset = dataset_of(tmp_path, "people.csv", TEXT, CsvFiles())
    sound = small_model(dataset)
    sample = first_rows(select(dataset, "train"), 1000)
    work = dataclasses.replace(SCHEMA["work"], clean=Clean(strip="", null_markers=("?", "")))
    age, _, *others = SCHEMA.features
    faulty = dataclasses.replace(sound, schema=dataclasses.replace(SCHEMA, features=(age, work, *others)))
    export.export_model(faulty, tmp_path / "faulty")
    found = skew(sound, tf.saved_model.load(str(tmp_path / "faulty")), sample)
    (feature,) = found.features
    assert (feature.feature, found.from_files) == ("work", len(sample))
    assert feature.example.startswith("' Private' is id ")
    assert feature.example.endswith(", id 0 in serving")
    (tmp_path / "people.csv").unlink()
    blind = skew(sound, tf.saved_model.load(str(tmp_path / "faulty")), sample)
    assert (blind.features, blind.from_files) == ([], 0)

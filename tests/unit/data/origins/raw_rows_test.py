"""Raw rows with their texts; what is missing, changed or damaged costs an answer, and never fails."""

import pathlib

import pytest

from beam_jobs.sources.formats import open_source
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.origins import reader
from pipeline.data.origins.files import Origin
from pipeline.data.origins.reader import raw_rows
from pipeline.data.reading.source import stored_rows
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.conversions import converted

SCHEMA = Schema(name="numbers", features=(Numeric(name="number", number="int64"),))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    directory = tmp_path_factory.mktemp("origins")
    (directory / "a\nb.csv").write_text("number\n" + "".join(f"{row}\n" for row in range(100)))
    return converted(str(directory / "a\nb.csv"), directory / "out", source=open_source("csv"), schema=SCHEMA)


def shards(dataset: Dataset) -> list[str]:
    return [shard.path for shard in dataset.manifest.splits["train"]]


def test_file_line_and_text(dataset: Dataset):
    [raw] = raw_rows(dataset, [(shards(dataset)[0], 0)])
    assert int(raw.text) == raw.origin.row - 2
    assert str(raw) == rf"a\nb.csv line {raw.origin.row}"
    assert pathlib.Path(raw.folder) == dataset.directory.parent


def test_the_origins_of_a_split_are_those_of_its_source(dataset: Dataset):
    selection = select(dataset, "train[-30:]+train[:10]")
    lines = [int(row["number"]) + 2 for row in stored_rows(selection)]
    assert reader.of_selected(selection) == [Origin("a\nb.csv", line) for line in lines]


def test_what_is_damaged_costs_its_answers_alone(dataset: Dataset):
    places = [(shards(dataset)[0], row) for row in (3, 0)]
    whole = raw_rows(dataset, places)
    for name in (reader.file_name(places[0][0]), reader.FILES_NAME):
        path = dataset.directory / name
        content = path.read_bytes()
        for damaged in (b"", content[:-1], content[:50], bytes(len(content))):
            path.write_bytes(damaged)
            assert raw_rows(dataset, places) == [None, None]
        path.unlink()
        assert raw_rows(dataset, places) == [None, None]
        path.write_bytes(content)
    assert raw_rows(dataset, places) == whole


def test_no_text_where_the_file_changed(dataset: Dataset):
    raw_file = dataset.directory.parent / "a\nb.csv"
    content = raw_file.read_bytes()
    raw_file.write_bytes(b"number\n")
    [raw] = raw_rows(dataset, [(shards(dataset)[0], 0)])
    raw_file.write_bytes(content)
    assert (raw.text, raw.origin.file) == (None, "a\nb.csv")

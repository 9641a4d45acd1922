"""Rows with the same key become one record: all of them, once, whatever files they are in."""

import collections
import dataclasses
import pathlib
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from beam_jobs.cells.typed import GROUP_COLUMN, ORDER_COLUMN, ORIGIN_COLUMN, ROW_COLUMN, arrow_schema
from beam_jobs.checks import validate
from beam_jobs.checks.dataset import verify
from beam_jobs.conversion import dataset as dataset_lib
from beam_jobs.conversion.groups import fold, in_groups
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.conversion.plan import make_plan
from beam_jobs.launch.run import Run
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.origins import reader
from pipeline.data.reading import parsing
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor
from pipeline.data.schema.schema import Group, Schema, SplitBy
from pipeline.data.statistics import loading
from tests.shared.conversions import converted

LENGTH = 4
SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="x", number="int64"),
        Numeric(name="z", missing="mark"),
        Categorical(name="kind", vocabulary=("a", "b"), unknown="reject"),
        Label(name="rel", task="ranking"),
    ),
    group=Group(column="query", length=LENGTH),
)
Row = tuple[str, int, str, str, int]


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(["query,x,z,kind,rel", *lines]) + "\n")


def groups_of(dataset: Dataset) -> dict[str, list[dict[str, list]]]:
    """The groups of each split: by feature, the values of their rows; those that fill up are left out."""
    found = collections.defaultdict(list)
    for split in dataset.manifest.splits:
        for path in dataset.shard_paths(split):
            for record in tf.data.TFRecordDataset(path):
                stored = parsing.stored_features(record[None], dataset.schema)
                values = {name: each[0].numpy() for name, each in stored.items()}
                assert {each.shape for each in values.values()} == {(LENGTH,)}
                there = values["rel"] >= 0
                assert (np.sort(~there) == ~there).all(), "what fills up a group stands at its end"
                assert set(values["x"]) == set(values["x"][there]), "it repeats the rows of the group"
                found[split].append({name: each[there].tolist() for name, each in values.items()})
    return found


def rows_of(dataset: Dataset) -> list[tuple]:
    return sorted(
        (x, kind.decode(), rel)
        for groups in groups_of(dataset).values()
        for group in groups
        for x, kind, rel in zip(group["x"], group["kind"], group["rel"], strict=True)
    )


def drawn(queries: int) -> list[Row]:
    draw, rows = random.Random(1), []
    for query in range(queries):
        for _ in range(draw.randint(1, LENGTH)):
            rows.append(
                (f"q{query}", len(rows), draw.choice(["", "0.5"]), draw.choice("ab"), draw.randint(0, 3))
            )
    draw.shuffle(rows)
    return rows


def test_rows_in_any_order_and_file_meet_in_one_record_of_one_split(tmp_path: pathlib.Path):
    rows = drawn(200)
    (tmp_path / "raw").mkdir()
    for number in range(3):
        write(tmp_path / "raw" / f"{number}.csv", rows[number::3])
    dataset = converted(f"{tmp_path}/raw", tmp_path / "out", source=CsvFiles(), schema=SCHEMA)
    assert rows_of(dataset) == sorted((x, kind, rel) for _, x, _, kind, rel in rows)
    groups = groups_of(dataset)
    assert len(groups) == 3, "all splits have groups"
    query_of = {x: query for query, x, *_ in rows}
    for each in (group for split in groups.values() for group in split):
        assert len({query_of[x] for x in each["x"]}) == 1
    assert sum(map(len, groups.values())) == 200
    manifest = dataset.manifest
    assert (manifest.rows_read, manifest.rows_written, manifest.rows_rejected) == (len(rows), 200, 0)
    statistics = loading.load(dataset)
    assert sum(split.examples for split in statistics.values()) == len(rows), "statistics are of rows"
    assert verify(tmp_path / "out").problems == ()


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_the_same_rows_give_the_same_bytes_in_any_order(tmp_path: pathlib.Path, layout: str):
    rows, digests = drawn(60), set()
    for number in range(2):
        raw = tmp_path / f"{number}.csv"
        write(raw, random.Random(number).sample(rows, len(rows)))
        made = converted(
            str(raw),
            tmp_path / f"out{number}",
            source=CsvFiles(),
            schema=SCHEMA,
            layout=layout,
            origins=False,
        )
        digests.add(tuple(shard.sha256 for split in made.manifest.splits for shard in made.shards(split)))
    assert len(digests) == 1


def test_a_group_has_the_origin_of_its_first_row(tmp_path: pathlib.Path):
    rows = drawn(40)
    write(tmp_path / "raw.csv", rows)
    dataset = converted(str(tmp_path / "raw.csv"), tmp_path / "out", source=CsvFiles(), schema=SCHEMA)
    origins = reader.open_origins(dataset.directory, dataset.manifest)
    number_of = {x: number for number, (_, x, *_) in enumerate(rows, 2)}  # the header is line 1
    for split, groups in groups_of(dataset).items():
        at = 0
        for shard in dataset.shards(split):
            for row in range(shard.rows):
                origin = origins.of(shard.path, row)
                assert origin.row == number_of[groups[at]["x"][0]]
                at += 1


@pytest.mark.parametrize(
    ("rows", "groups", "rejected"),
    [
        pytest.param([("q", 1, "", "a", 0)], [[1]], {}, id="a group of one row"),
        pytest.param(
            [("Q", 1, "", "a", 0), ("q", 2, "", "a", 1)], [[1], [2]], {}, id="case tells keys apart"
        ),
        pytest.param([(" q", 1, "", "a", 0), ("q ", 2, "", "a", 1)], [[1, 2]], {}, id="blanks do not"),
        pytest.param(
            [("", 1, "", "a", 0), (" ", 3, "", "a", 0), ("q", 2, "", "a", 1)],
            [[2]],
            {"no query, which says the row's group": 2},
            id="no key",
        ),
        pytest.param(
            [("q", 1, "", "nobody", 0), ("q", 2, "", "a", 1)],
            [[2]],
            {"not in the vocabulary": 1},
            id="bad row",
        ),
        pytest.param(
            [("q", 1, "", "a", -1), ("q", 2, "", "a", 31), ("q", 3, "", "a", 30), ("q", 4, "", "a", 1.5)],
            [[3]],
            {"no relevance from 0 to 30": 2, "not a whole number": 1},
            id="relevance",
        ),
    ],
)
def test_ugly_groups(tmp_path: pathlib.Path, rows: list[Row], groups: list[list[int]], rejected: dict):
    write(tmp_path / "raw.csv", rows)
    dataset = converted(
        str(tmp_path / "raw.csv"),
        tmp_path / "out",
        source=CsvFiles(),
        schema=SCHEMA,
        rejected=1.0,
        split="train",
    )
    found = sorted(sorted(group["x"]) for group in groups_of(dataset)["train"])
    assert found == groups
    assert dataset.manifest.rows_rejected == sum(rejected.values())
    assert verify(tmp_path / "out").problems == ()
    told = (tmp_path / "out" / "rejected" / "rejected.jsonl").read_text() if rejected else ""
    assert all(reason in told for reason in rejected)


def test_words_that_the_schema_names_are_no_groups(tmp_path: pathlib.Path):
    rows = [("NA", 1, "", "a", 0), (" NA", 2, "", "a", 0), ("na", 3, "", "a", 0)]
    write(tmp_path / "raw.csv", rows)
    group = Group(column="query", length=LENGTH, missing=("NA",))
    dataset = converted(
        str(tmp_path / "raw.csv"),
        tmp_path / "out",
        source=CsvFiles(),
        schema=dataclasses.replace(SCHEMA, group=group),
        rejected=1.0,
        split="train",
    )
    assert [each["x"] for each in groups_of(dataset)["train"]] == [[3]]
    assert (dataset.manifest.rows_read, dataset.manifest.rows_rejected) == (3, 2)


def test_groups_whose_inputs_are_in_two_splits_are_told(tmp_path: pathlib.Path):
    write(tmp_path / "train.csv", [(f"q{number}", number, "", "a", 1) for number in range(9)])
    write(tmp_path / "test.csv", [(f"q{number}", 100 + number, "", "b", 0) for number in range(6, 12)])
    inputs = [Input(location=str(tmp_path / f"{split}.csv"), split=split) for split in ("train", "test")]
    job = Conversion(
        source=CsvFiles(),
        schema=SCHEMA,
        plan=make_plan(inputs, CsvFiles(), SCHEMA, shard_bytes=50),
        rules=validate.parse_rules(severities=(), limits=(), baseline=None),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0),
        command="",
    )
    told = [
        each for each in convert(job, output=str(tmp_path / "out"))["anomalies"] if each["kind"] == "leakage"
    ]
    assert [(each["split"], each["value"]) for each in told] == [("test", 0.5)]
    assert "3 of 6 groups by 'query' have rows in split 'train', too" in told[0]["message"]
    assert verify(tmp_path / "out").problems == ()


def test_a_group_that_is_too_long_is_refused_or_cut_without_looking_at_labels(tmp_path: pathlib.Path):
    rows = [("q", number, "", "a", number % 2) for number in range(1000)]
    write(tmp_path / "raw.csv", rows)

    def convert(output: str, rejected: float) -> Dataset:
        return converted(
            str(tmp_path / "raw.csv"),
            tmp_path / output,
            source=CsvFiles(),
            schema=SCHEMA,
            rejected=rejected,
            split="train",
        )

    with pytest.raises(InputError, match=r"996 of 1,000 rows.*its group has more than 4 rows"):
        convert("refused", 0.5)
    dataset = convert("cut", 1.0)
    assert (dataset.manifest.rows_rejected, dataset.manifest.rows_written) == (996, 1)
    [group] = groups_of(dataset)["train"]
    assert len(group["x"]) == LENGTH
    assert group["x"] != [0, 1, 2, 3], "the kept rows are drawn, not the first ones"


def batch(rows: Sequence[tuple[int, int, str, int, int]]) -> pa.RecordBatch:
    """Rows of (order hash, origin, key, hash of the row, x)."""
    return pa.RecordBatch.from_pylist(
        [
            {
                ORDER_COLUMN: order,
                ORIGIN_COLUMN: origin,
                GROUP_COLUMN: key.encode(),
                ROW_COLUMN: row,
                "x": x,
                "z": None,
                "kind": "a",
                "rel": x % 3,
            }
            for order, origin, key, row, x in rows
        ],
        schema=arrow_schema(SCHEMA, origins=True),
    )


def test_two_keys_of_one_hash_are_two_groups():
    rows = batch(
        [(5, 10, "b", 2, 1), (5, 11, "a", 1, 2), (5, 12, "b", 1, 3), (5, 13, "a", 3, 4), (9, 14, "a", 1, 5)]
    )
    ordered, too_many = in_groups(rows, SCHEMA)
    folded = fold(ordered, SCHEMA)
    assert too_many == []
    assert folded.column("x").to_pylist() == [[2, 4, 2, 4], [3, 1, 3, 1], [5, 5, 5, 5]]
    assert folded.column("rel").to_pylist() == [[2, 1, -1, -1], [0, 1, -1, -1], [2, -1, -1, -1]]
    assert folded.column(ORIGIN_COLUMN).to_pylist() == [11, 12, 14]
    assert np.isnan(folded.column("z").to_pylist()).all()


def test_a_file_of_a_schema_says_the_group(tmp_path: pathlib.Path):
    schema_lib.save(SCHEMA, tmp_path / "schema.json")
    assert (
        '"group": {\n    "column": "query",\n    "length": 4\n  }' in (tmp_path / "schema.json").read_text()
    )
    assert schema_lib.load(tmp_path / "schema.json") == SCHEMA
    named = dataclasses.replace(SCHEMA, group=Group(column="query", length=LENGTH, missing=("NA",)))
    assert schema_lib.from_json(schema_lib.to_json(named)) == named
    assert SCHEMA["x"].shape == SCHEMA.label.shape == (LENGTH,)
    rows = SCHEMA.of_rows
    assert (rows["x"].shape, rows.label.shape, rows.group) == ((), (), None)
    assert schema_lib.from_json(schema_lib.to_json(rows)) == rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": (Numeric(name="x"), Label(name="y", classes=("a", "b")))},
            "one label, of task ranking",
        ),
        (
            {"features": (Tensor(name="x", dimensions=(2,)), SCHEMA.label)},
            "received a feature of kind tensor",
        ),
        ({"split_by": SplitBy(columns=("x",))}, "expected none where there is a group"),
    ],
)
def test_what_does_not_suit_a_group_is_refused(changes: dict, message: str):
    fields = {"name": "s", "features": SCHEMA.features, "group": SCHEMA.group} | changes
    with pytest.raises(InputError, match=message):
        Schema(**fields)


def test_a_label_of_ranking_needs_a_group():
    with pytest.raises(InputError, match="infer_schema --group=COLUMN"):
        dataset_lib.check_grouped(SCHEMA.of_rows)

"""A conversion as a whole: no row is lost unnoticed, and other tools read what it writes."""

import dataclasses
import pathlib

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion import dataset, summary
from beam_jobs.conversion.dataset import write_tfds_metadata
from beam_jobs.conversion.writer import WrittenShard
from beam_jobs.launch.outcome import Outcome
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import Rejected
from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks, manifest, shards
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Label, Numeric, Text
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from tests.shared import measuring
from tests.shared.conversions import converted, plan_of
from tests.shared.fixtures.raw_data import PEOPLE, people_csv
from tests.shared.tiny_dataset import write_dataset

PLAN = plan_of(shards={"train": 2}, buckets={"train": 1})

SCHEMA = Schema(name="s", features=(Numeric(name="x"),))


def described(rows: int) -> bytes:
    """What workers say that they gathered of so many rows."""
    columns = [{"": number, "x": 0.5} for number in range(rows)]
    batch = pa.RecordBatch.from_pylist(columns, schema=arrow_schema(SCHEMA))
    return encoding.dumps_accumulator(measuring.gathered(SCHEMA, batch))


def shard(number: int, *, rows: int) -> WrittenShard:
    return WrittenShard(
        split="train",
        number=number,
        path="",
        index_path="",
        origins_path="",
        file_name=f"{number}",
        rows=rows,
        records=rows,
        examples=rows,
        bytes=1,
        sha256="",
    )


WHOLE = Outcome(
    rows_read=6,
    rejected=Rejected(reasons={"negative": 1}, listed=()),
    files=(shard(0, rows=3), shard(1, rows=2)),
    statistics={"train": described(5)},
)


def test_all_rows_written_or_rejected_are_fine():
    dataset.check_reconciled(WHOLE, PLAN, SCHEMA)


@pytest.mark.parametrize(
    "changed",
    [
        {"rows_read": 7},
        {"rejected": Rejected(reasons={}, listed=())},
        {"files": (shard(0, rows=3), shard(1, rows=3))},
        {"files": (shard(0, rows=5),)},
        {"files": (shard(0, rows=3), shard(0, rows=2))},
        {"files": (*WHOLE.files, shard(0, rows=0))},
        {"statistics": {"train": described(4)}},
        {"statistics": {}},
    ],
)
def test_lost_and_repeated_rows_are_noticed(changed: dict):
    with pytest.raises(InputError, match="The runner lost or repeated rows; nothing was published"):
        dataset.check_reconciled(dataclasses.replace(WHOLE, **changed), PLAN, SCHEMA)


def test_statistics_that_no_worker_sent_are_refused():
    with pytest.raises(InputError, match="Somebody else writes there"):
        dataset.statistics_of(dataclasses.replace(WHOLE, statistics={"train": b"garbage"}), PLAN, SCHEMA)


def test_a_split_without_rows_is_warned_of():
    def part(rows: int) -> dict[str, int]:
        return {"rows": rows, "records": rows, "shards": 1, "bytes": 10 * rows}

    told = summary.text(
        {
            "splits": {"train": part(3), "test": part(0)},
            "rows_read": 3,
            "rows_written": 3,
            "rows_rejected": 0,
            "rejected_reasons": {},
            "anomalies": [],
            "shown_twice": {"when": 2},
            "seconds": 1.0,
            "digest": "d",
            "directory": "data/1.0.0",
        }
    )
    assert "warning: split 'test' has no rows." in told
    assert "--input=test=PATH" in told
    assert "split 'train' has no rows" not in told
    assert "warning: 'when': 2 rows have a local time that the clocks of its zone show twice" in told


# What TensorFlow Datasets is told of a dataset.
X, TEXT, Y = Numeric(name="x", number="int64"), Text(name="text"), Label(name="y", task="regression")
ROW = {"x": 3, "text": b"three", "y": 0.5}


def builder(directory: pathlib.Path, *features: Feature) -> tfds.core.DatasetBuilder:
    schema = Schema(name="s", features=features)
    row = {feature.name: ROW[feature.name] for feature in features}
    written = write_dataset(directory / "1.0.0", schema, {"train": [row]}, shards=1)
    write_tfds_metadata(
        schema, written.manifest.splits, layout="rows", version="1.0.0", directory=written.directory
    )
    return tfds.builder_from_directory(written.directory)


@pytest.mark.parametrize(("feature", "value"), [(X, 3), (TEXT, b"three")])
def test_one_input_and_a_label_are_supervised(tmp_path: pathlib.Path, feature: Feature, value: object):
    [(given, label)] = builder(tmp_path, Y, feature).as_dataset(split="train", as_supervised=True)
    assert (given.numpy(), label.numpy()) == (value, 0.5)


def test_two_inputs_or_none_are_not(tmp_path: pathlib.Path):
    assert builder(tmp_path / "two", X, TEXT, Y).info.supervised_keys is None
    assert builder(tmp_path / "none", X).info.supervised_keys is None


# Datasets as other tools read them, with the index files beside the shards.
AGES = list(range(20, 60))  # of the people in people.csv


@pytest.fixture(scope="module")
def people_dataset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.csv").write_bytes(people_csv())
    return converted_csv(folder / "people.csv", folder / "out", PEOPLE).directory


def converted_csv(path: pathlib.Path, output: pathlib.Path, schema: Schema, layout: str = "rows") -> Dataset:
    """The rows of the file in the split train, in one shard."""
    how = {"source": CsvFiles(), "schema": schema, "layout": layout, "split": "train"}
    return converted(str(path), output, shard_bytes=1 << 30, **how)


def read_with_tfds(directory: pathlib.Path) -> list[dict]:
    builder = tfds.builder_from_directory(directory)
    return list(tfds.as_numpy(builder.as_dataset(split="train")))


def ages(records: list[bytes]) -> list[int]:
    examples = map(tf.train.Example.FromString, records)
    return sorted(example.features.feature["age"].int64_list.value[0] for example in examples)


def test_tf_data_reads_every_row_by_the_usual_glob(people_dataset: pathlib.Path):
    files = tf.data.Dataset.list_files(f"{people_dataset}/people-train.tfrecord*")
    assert ages(list(tf.data.TFRecordDataset(files).as_numpy_iterator())) == AGES


def test_tfds_reads_every_row(people_dataset: pathlib.Path):
    assert sorted(int(row["age"]) for row in read_with_tfds(people_dataset)) == AGES


def test_the_index_leads_a_plain_reader_to_every_record(people_dataset: pathlib.Path):
    [shard] = manifest.open_dataset(people_dataset).manifest.splits["train"]
    content = (people_dataset / shard.path).read_bytes()
    found = shards.load(people_dataset / shards.file_name(shard.path))
    starts = (found.offsets + np.uint64(12)).tolist()
    records = [content[a : a + n] for a, n in zip(starts, found.lengths.tolist(), strict=True)]
    assert ages(records) == AGES
    assert content_hashes(records).tolist() == found.hashes.tolist()
    assert len(content) == starts[-1] + len(records[-1]) + 4


def test_the_manifest_vouches_for_the_index(people_dataset: pathlib.Path):
    [shard] = manifest.open_dataset(people_dataset).manifest.splits["train"]
    assert shards.file_name(shard.path) in {file.path for file in manifest.load(people_dataset).files}


def test_blocks_hold_the_rows_of_the_same_conversion_in_the_same_order(tmp_path: pathlib.Path):
    schema = Schema(name="numbers", features=(Numeric(name="x"),))
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{number / 2}\n" for number in range(3000)))
    converted_csv(tmp_path / "x.csv", tmp_path / "rows", schema)
    opened = converted_csv(tmp_path / "x.csv", tmp_path / "blocks", schema, "blocks").manifest
    by_row = [float(row["x"]) for row in read_with_tfds(tmp_path / "rows")]
    assert (opened.layout, opened.rows("train"), opened.records("train")) == ("blocks", 3000, 3)
    read = read_with_tfds(tmp_path / "blocks")
    rows = [np.frombuffer(block["rows"], blocks.row_dtype(schema))[: block["count"]] for block in read]
    assert np.concatenate(rows)["x"].tolist() == by_row


def test_a_row_of_several_lines_counts_as_so_many_and_one_that_was_read_is_told(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
):
    note = Text(name="note")
    schema = dataclasses.replace(PEOPLE, features=(note, *PEOPLE.features))
    rows = [f"note,{row}" for row in people_csv(10).decode().splitlines()]
    kept = '"one,30,1.7,Bern,no\ntwo",31,1.8,Bern,no'
    left_out = kept.replace("31", "old")
    path = tmp_path / "people.csv"
    path.write_text("\n".join([*rows, kept, left_out]) + "\n")
    with pytest.raises(InputError, match=r"1 of 12 rows, which count as 2 \(1 × not a whole number"):
        converted(str(path), tmp_path / "out", source=CsvFiles(), schema=schema, rejected=1.5 / 12)
    dataset = converted(str(path), tmp_path / "out", source=CsvFiles(), schema=schema, rejected=0.16)
    assert (dataset.manifest.rows_written, dataset.manifest.rows_rejected) == (11, 1)
    assert "warning    people.csv line 12: a quoted cell holds line ends" in capsys.readouterr().err
    [rejected] = (tmp_path / "out" / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert '"row": 14, "column": "age"' in rejected and rejected.endswith('"lines": 2}')

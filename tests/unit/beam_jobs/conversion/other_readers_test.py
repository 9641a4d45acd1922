"""Datasets as other tools read them, with the index files beside the shards."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from pipeline.data.dataset import blocks, manifest, shards
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.fixtures.raw_data import PEOPLE, RunBinary, people_csv

AGES = list(range(20, 60))  # of the people in people.csv


@pytest.fixture(scope="module")
def dataset(run_binary: RunBinary, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("people")
    (folder / "people.csv").write_bytes(people_csv())
    schema_lib.save(PEOPLE, folder / "schema.json")
    ended = run_binary(
        "beam_jobs.convert",
        *("--format=csv", "--splits=train=1", f"--input={folder / 'people.csv'}"),
        *(f"--schema={folder / 'schema.json'}", f"--output={folder / 'out'}"),
    )
    assert ended.code == 0, ended.err
    return folder / "out"


def read_with_tfds(directory: pathlib.Path) -> list[dict]:
    builder = tfds.builder_from_directory(directory)
    return list(tfds.as_numpy(builder.as_dataset(split="train")))


def ages(records: list[bytes]) -> list[int]:
    examples = map(tf.train.Example.FromString, records)
    return sorted(example.features.feature["age"].int64_list.value[0] for example in examples)


def test_tf_data_reads_every_row_by_the_usual_glob(dataset: pathlib.Path):
    files = tf.data.Dataset.list_files(f"{dataset}/people-train.tfrecord*")
    assert ages(list(tf.data.TFRecordDataset(files).as_numpy_iterator())) == AGES


def test_tfds_reads_every_row(dataset: pathlib.Path):
    assert sorted(int(row["age"]) for row in read_with_tfds(dataset)) == AGES


def test_the_index_leads_a_plain_reader_to_every_record(dataset: pathlib.Path):
    [shard] = manifest.open_dataset(dataset).manifest.splits["train"]
    content = (dataset / shard.path).read_bytes()
    found = shards.load(dataset / shards.file_name(shard.path))
    starts = (found.offsets + np.uint64(12)).tolist()
    records = [content[a : a + n] for a, n in zip(starts, found.lengths.tolist(), strict=True)]
    assert ages(records) == AGES
    assert content_hashes(records).tolist() == found.hashes.tolist()
    assert len(content) == starts[-1] + len(records[-1]) + 4


def test_the_manifest_vouches_for_the_index(dataset: pathlib.Path):
    [shard] = manifest.open_dataset(dataset).manifest.splits["train"]
    assert shards.file_name(shard.path) in {file.path for file in manifest.load(dataset).files}


def test_blocks_hold_the_rows_of_the_same_conversion_in_the_same_order(
    tmp_path: pathlib.Path, run_binary: RunBinary
):
    schema = Schema(name="numbers", features=(Numeric(name="x"),))
    schema_lib.save(schema, tmp_path / "schema.json")
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{number / 2}\n" for number in range(3000)))
    for layout in ("rows", "blocks"):
        ended = run_binary(
            "beam_jobs.convert",
            *("--format=csv", "--splits=train=1", f"--layout={layout}", f"--input={tmp_path / 'x.csv'}"),
            *(f"--schema={tmp_path / 'schema.json'}", f"--output={tmp_path / layout}"),
        )
        assert ended.code == 0, ended.err
    by_row = [float(row["x"]) for row in read_with_tfds(tmp_path / "rows")]
    opened = manifest.open_dataset(tmp_path / "blocks").manifest
    assert (opened.layout, opened.rows("train"), opened.records("train")) == ("blocks", 3000, 3)
    read = read_with_tfds(tmp_path / "blocks")
    rows = [np.frombuffer(block["rows"], blocks.row_dtype(schema))[: block["count"]] for block in read]
    assert np.concatenate(rows)["x"].tolist() == by_row

"""From raw data to a dataset by way of both binaries, for what is neither plain CSV nor an image folder."""

import functools
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
import tensorflow as tf

from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label, Tokens
from tests.shared.fixtures.raw_data import RunBinary, encoded, fruit_pixels

Converted = Callable[..., tuple[schema_lib.Schema, list[dict]]]


@pytest.fixture
def converted(run_binary: RunBinary) -> Converted:
    """The proposed schema and the records of all splits."""
    return functools.partial(propose_and_convert, run_binary)


def propose_and_convert(
    run_binary: RunBinary, directory: pathlib.Path, given: list[str], *label: str
) -> tuple[schema_lib.Schema, list[dict]]:
    schema, output = directory / "schema.json", directory / "out"
    ended = run_binary("beam_jobs.infer_schema", *given, *label, f"--output={schema}")
    assert ended.code == 0, ended.err
    ended = run_binary("beam_jobs.convert", *given, f"--schema={schema}", f"--output={output}")
    assert ended.code == 0, ended.err
    shards = sorted(path for path in output.glob("*.tfrecord-*-of-?????"))
    records = [
        tf.train.Example.FromString(record)
        for shard in shards
        for record in tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()
    ]
    return schema_lib.load(schema), [dict(record.features.feature) for record in records]


def test_a_table_of_image_paths(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "raw" / "files").mkdir(parents=True)
    lines = ["picture,kind"]
    for number in range(12):
        (tmp_path / "raw" / "files" / f"{number}.png").write_bytes(encoded(fruit_pixels(number)))
        lines.append(f"files/{number}.png,{('apple', 'pear')[number % 2]}")
    (tmp_path / "raw" / "table.csv").write_text("\n".join(lines))
    schema, records = converted(tmp_path, [f"--input={tmp_path / 'raw' / 'table.csv'}"], "--label=kind")
    assert schema["picture"] == Image(name="picture")
    assert schema["kind"] == Label(name="kind", classes=("apple", "pear"))
    images = {record["picture"].bytes_list.value[0] for record in records}
    assert images == {encoded(fruit_pixels(number)) for number in range(12)}


def test_text_packed_into_tokens(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "raw.txt").write_text("\n".join(f"line {number}" for number in range(500)))
    given = [f"--input={tmp_path / 'raw.txt'}", "--tokenizer=bytes", "--sequence_length=32"]
    schema, records = converted(tmp_path, given)
    assert schema["tokens"] == Tokens(name="tokens", length=32, vocabulary_size=259)
    tokens = [token for record in records for token in record["tokens"].int64_list.value]
    assert tokens.count(1) == 500
    assert all(len(record["segments"].int64_list.value) == 32 for record in records)


@pytest.mark.slow
def test_a_dataset_of_tfds_keeps_its_splits(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "first").mkdir()
    (tmp_path / "raw.csv").write_text("a,y\n" + "".join(f"{n / 7:.3f},{n % 2}\n" for n in range(60)))
    _, first = converted(tmp_path / "first", [f"--input={tmp_path / 'raw.csv'}"], "--label=y")
    _, again = converted(tmp_path, [f"--input=tfds:{tmp_path / 'first' / 'out'}"], "--label=y")
    assert sorted(map(str, again)) == sorted(map(str, first))
    shards = [path.name.partition("-of")[0] for path in (tmp_path / "out").glob("*.tfrecord-*-of-?????")]
    assert sorted(name.split("-")[1].removesuffix(".tfrecord") for name in shards) == [
        "test",
        "train",
        "validation",
    ]


def test_no_source_but_that_of_tfds_imports_tensorflow():
    code = "import sys, beam_jobs.sources.flags; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

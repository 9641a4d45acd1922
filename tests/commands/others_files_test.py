"""Every Parquet, Avro and TFRecord file of others that we have either converts whole or is refused clearly.

Row counts are those of an independent reader (pyarrow's metadata, TensorFlow's TFRecordDataset; for Avro,
the JSON or CSV form of the same data).
"""

import json
import pathlib
from collections.abc import Mapping

import pytest

from tests.shared.fixtures.raw_data import DATA, RunBinary, needs_data

PARQUET_AVRO: Mapping[str, int | str] = {
    "apache_avro/syncInMeta.avro": "does not read as Avro",
    "apache_avro/weather-deflate.avro": 5,
    "apache_avro/weather-snappy.avro": 5,
    "apache_avro/weather-sorted.avro": 5,
    "apache_avro/weather-zstd.avro": 5,
    "apache_avro/weather.avro": 5,
    "apache_avro/weather.json": 5,
    "parquet-testing/alltypes_plain.parquet": 8,
    "parquet-testing/alltypes_plain.snappy.parquet": 2,
    "parquet-testing/byte_array_decimal.parquet": 24,
    "parquet-testing/datapage_v2.snappy.parquet": 5,
    "parquet-testing/delta_byte_array.parquet": 1000,
    "parquet-testing/list_columns.parquet": 3,  # lists of any length are categories
    "parquet-testing/lz4_raw_compressed.parquet": 4,
    "parquet-testing/nation.dict-malformed.parquet": 25,
    "parquet-testing/nested_lists.snappy.parquet": 3,
    "parquet-testing/nulls.snappy.parquet": "empty in 8 of 8 rows",
    "parquet-testing/single_nan.parquet": "empty in 1 of 1 rows",
    "tfio/userdata_spark.snappy.parquet": 100_004,
    "tfx_taxi/data.avro": 10_000,
    "tfx_taxi/data.parquet": 10_000,
}
_NO_EXAMPLE = "not a tf.train.Example"
TFRECORDS: Mapping[str, int | str] = {
    "fuxictr/train.tfrecord": 100,
    "tf_ranking/test_numerical_elwc.tfrecord": _NO_EXAMPLE,
    "tf_ranking/train_elwc.tfrecord": _NO_EXAMPLE,
    "tf_ranking/train_numerical_elwc.tfrecord": _NO_EXAMPLE,
    "tf_ranking/vali_numerical_elwc.tfrecord": _NO_EXAMPLE,
    "tft_seq/data_tfrecord.gz": _NO_EXAMPLE,
    "tfx_mnist/mnist.tfrecord": 1000,
    "tfx_testdata/csv_example_gen/Split-eval": 5091,
    "tfx_testdata/csv_example_gen/Split-train": 9909,
    "tfx_testdata/external/avro/data.avro": 10_000,
    "tfx_testdata/external/csv/data.csv": 10_000,
    "tfx_testdata/external/csv/data2.csv": 5000,
    "tfx_testdata/external/csv_empty/data.csv": 3,
    "tfx_testdata/external/csv_multi_line_string/data.csv": 3,
    "tfx_testdata/external/parquet/data.parquet": 10_000,
    "tfx_testdata/external/tfrecord/data_tfrecord-00000-of-00002.gz": 9988,
    "tfx_testdata/external/tfrecord/data_tfrecord-00001-of-00002.gz": 5012,
    "tfx_testdata/external/tfrecord_sequence/data_tfrecord-00000-of-00001.gz": _NO_EXAMPLE,
    "tfx_testdata/penguin/data/Split-eval/data_tfrecord-00000-of-00001.gz": 100,
    "tfx_testdata/penguin/data/Split-train/data_tfrecord-00000-of-00001.gz": 234,
    "tfx_testdata/tfrecord_sequence/Split-eval/data_tfrecord_eval.gz": _NO_EXAMPLE,
    "tfx_testdata/tfrecord_sequence/Split-train/data_tfrecord_train.gz": _NO_EXAMPLE,
    "tfx_testdata/transform/transformed_examples/Split-eval": 5091,
    "tfx_testdata/transform/transformed_examples/Split-train": 9909,
    "tfx_tfjs/data.tfrecord.gz": 100,
}
_FORMATS = {".avro": "avro", ".csv": "csv", ".json": "jsonl", ".parquet": "parquet"}
_NO_DATA = {"SOURCE", "feature_map.json", "schema.pbtxt"}


@needs_data
@pytest.mark.parametrize(
    ("folder", "table"), [("parquet_avro", PARQUET_AVRO), ("tfrecords_by_others", TFRECORDS)]
)
def test_every_file_is_in_the_table(folder: str, table: Mapping[str, int | str]):
    root = pathlib.Path(DATA) / folder
    files = [path for path in root.rglob("*") if path.is_file() and path.name not in _NO_DATA]
    listed = [path for path in files if path.relative_to(root).as_posix().startswith(tuple(table))]
    assert sorted(files) == sorted(listed)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("folder", "table"), [("parquet_avro", PARQUET_AVRO), ("tfrecords_by_others", TFRECORDS)]
)
def test_each_converts_whole_or_is_refused_clearly(
    folder: str, table: Mapping[str, int | str], tmp_path: pathlib.Path, run_binary: RunBinary
):
    inputs = [pathlib.Path(DATA) / folder / name for name in table]
    given = [f"{_FORMATS.get(path.suffix, 'tfrecord')}={path}" for path in inputs]
    ended = run_binary("tests.commands.convert_each", tmp_path, *given)
    results = [json.loads(line[7:]) for line in ended.out.splitlines() if line.startswith("result ")]
    assert ended.code == 0, ended.err
    for (name, expected), result in zip(table.items(), results, strict=True):
        if isinstance(expected, int):
            assert (result["rows_read"], result["rows_written"]) == (expected, expected), name
        else:
            assert expected in result["refused"], name

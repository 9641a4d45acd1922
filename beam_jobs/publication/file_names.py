"""The names of the files that a job writes into its output directory, and how they are told from others."""

import re

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.origins import reader as origins
from pipeline.data.schema import schema as schema_lib
from pipeline.data.statistics import accumulator_file

TEMPORARY = "_tmp"  # the folder of everything that is not published yet
MARK = "written-by-penstock"  # the file in it that says whose folder it is
ANOMALIES = "anomalies.json"
SCHEMA_PROTO = "schema.pbtxt"
# What reads a folder of Parquet files (pyarrow, Spark) passes over names that begin so.
PREDICTIONS = "_predictions.json"
REJECTED_OF_PREDICTIONS = "_rejected.jsonl"
_FIXED = (
    TEMPORARY,
    ANOMALIES,
    SCHEMA_PROTO,
    REJECTED_OF_PREDICTIONS,
    schema_lib.FILE_NAME,
    manifest_lib.STATISTICS_FILE_NAME,
    accumulator_file.FILE_NAME,
    manifest_lib.CONVERSION_FILE_NAME,
    manifest_lib.REJECTED_FILE_NAME.partition("/")[0],
    origins.FOLDER,
    "dataset_info.json",  # this and features.json are written by TFDS
    "features.json",
)
# Shards, their indexes, TFDS's lists of classes, predictions.
_NUMBERED = re.compile(
    r"[a-z0-9_]+-[a-z0-9_]+(\.tfrecord-\d{5}-of-\d{5}|-\d{5}-of-\d{5}\.index)|.+\.labels\.txt"
    r"|predictions-\d{5}-of-\d{5}\.(parquet|tfrecord)"
)


def shard(name: str, split: str, number: int, shards: int) -> str:
    """As TensorFlow Datasets names shards."""
    return f"{name}-{split}.tfrecord-{number:05d}-of-{shards:05d}"


def predictions(number: int, files: int, file_format: str) -> str:
    return f"predictions-{number:05d}-of-{files:05d}.{file_format}"


def is_ours(name: str) -> bool:
    """Whether an unfinished run may leave a file or folder of this name in its output directory."""
    return name in _FIXED or bool(_NUMBERED.fullmatch(name))

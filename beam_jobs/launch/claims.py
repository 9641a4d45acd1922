"""Tells which directories a run may claim: new or empty ones, and those in which a killed run left its files.

A run creates `<output>/_tmp/` with its mark first, and deletes it just before the directory itself. So a
directory with the mark and without a manifest was left by a killed run, and the next run clears it.
Everything else may belong to somebody else and is refused, even a `_tmp` without the mark.
"""

import re
import uuid
from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems

from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.origins import reader as origins
from pipeline.data.schema import schema as schema_lib
from pipeline.data.statistics import encoding

# --- The names of the files that a job writes into its output directory, and how they differ from others.


TEMPORARY = "_tmp"  # the folder of everything that is not published yet
TEMPORARY_MARK = "written-by-penstock"  # the file in it that says whose folder it is
ANOMALIES = "anomalies.json"
SCHEMA_PROTO = "schema.pbtxt"
# Programs that read a folder of Parquet files (pyarrow, Spark) skip names that begin with an underscore.
PREDICTIONS = "_predictions.json"
REJECTED_OF_PREDICTIONS = "_rejected.jsonl"
_FIXED = (
    TEMPORARY,
    ANOMALIES,
    SCHEMA_PROTO,
    REJECTED_OF_PREDICTIONS,
    schema_lib.FILE_NAME,
    manifest_lib.STATISTICS_FILE_NAME,
    encoding.FILE_NAME,
    manifest_lib.CONVERSION_FILE_NAME,
    manifest_lib.REJECTED_FILE_NAME.partition("/")[0],
    origins.FOLDER,
    "dataset_info.json",  # TFDS writes this and features.json
    "features.json",
)
# Shards, their indexes, TFDS's lists of classes, predictions.
_NUMBERED = re.compile(
    r"[a-z0-9_]+-[a-z0-9_]+(\.tfrecord-\d{5}-of-\d{5}|-\d{5}-of-\d{5}\.index)|.+\.labels\.txt"
    r"|predictions-\d{5}-of-\d{5}\.(parquet|tfrecord)"
)


def shard(name: str, split: str, number: int, shards: int) -> str:
    """The file name of a shard, as TensorFlow Datasets writes it."""
    return f"{name}-{split}.tfrecord-{number:05d}-of-{shards:05d}"


def predictions(number: int, files: int, file_format: str) -> str:
    return f"predictions-{number:05d}-of-{files:05d}.{file_format}"


def attempt(directory: str, file_name: str) -> str:
    """A new path for one attempt at a file. A runner may make two attempts at once; only one is published."""
    return FileSystems.join(directory, f"{file_name}.{uuid.uuid4().hex}")


def is_ours(name: str) -> bool:
    """Whether an unfinished run may leave a file or folder of this name in its output directory."""
    return name in _FIXED or bool(_NUMBERED.fullmatch(name))


# The path of the mark in an output directory.
CLAIM_MARK = f"{TEMPORARY}/{TEMPORARY_MARK}"


def already_published(output: object) -> InputError:
    return InputError(
        f"--output={output}",
        received="a published dataset",
        expected="a directory that does not exist, or is empty",
        action="Datasets are never overwritten: choose a new version directory, or remove this one.",
    )


def check_ours(output: object, names: Sequence[str], *, is_marked: bool) -> None:
    """Raises InputError if any of `names` in `output` may be somebody else's."""
    foreign = [name for name in names if not (is_marked and is_ours(name))]
    if foreign:
        raise InputError(
            f"--output={output}",
            received=f"a directory that holds {', '.join(foreign[:5])}",
            expected="a directory that does not exist, or is empty",
            action="Choose another directory, or move these files away.",
        )


def leftovers_in_order(names: Sequence[str]) -> list[str]:
    """`names` in the order in which to remove them: the mark that says they are ours goes last."""
    return sorted(names, key=lambda name: (name.startswith(TEMPORARY), name == CLAIM_MARK))

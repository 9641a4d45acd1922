"""Where the output of a run goes: a local directory, or one that Beam's file systems reach, such as gs://.

A remote directory is filled in the same order as a local one, with the file that vouches for the rest last.
But an object store has no locks: two runs into one directory are only noticed when the second finds a
manifest.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Protocol

from beam_jobs.launch import local_output, remote_output
from pipeline.base.errors import InputError

_OF_FILES = (".avro", ".csv", ".json", ".jsonl", ".parquet", ".tfrecord", ".tsv", ".txt")


class Destination(Protocol):
    """An output directory that one run has claimed.

    Both temporary directories are gone after the run; they are one if the output is local.
    """

    local: pathlib.Path  # temporary, for the launcher alone
    shared: str  # temporary, for the workers
    directory: pathlib.Path  # where the launcher writes what describes the output

    def move(self, path: str, name: str) -> None:
        """Moves the file at `path`, which a worker wrote, to its published `name`."""

    def commit(self, name: str, content: str) -> None:
        """Publishes the output: writes `name`, the file that vouches for all others, after all others are
        there.
        """


@contextlib.contextmanager
def claimed(output: str) -> Iterator[Destination]:
    """Claims `output`; if the block fails, leaves no trace. Raises InputError if something is there, or if
    the name is that of a file.
    """
    path = pathlib.PurePosixPath(output)
    if path.suffix.lower() in _OF_FILES:
        raise InputError(
            f"--output={output}",
            received=f"a name that ends in {path.suffix}, as those of files do",
            expected="a directory: it gets several files",
            action=f"Write --output={output.removesuffix(path.suffix)}.",
        )
    with (remote_output if "://" in output else local_output).claimed(output) as destination:
        yield destination

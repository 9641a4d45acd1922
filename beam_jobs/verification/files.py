"""A problem of a dataset, and the problems of one file: whether it is the one that was published."""

import dataclasses
import pathlib
from collections.abc import Iterator

from pipeline.data.dataset import conversion_record, manifest
from pipeline.data.dataset.manifest import File, sha256
from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing that is not as published; `record` (0-based) and `offset` where it is one record.

    `origin` is its raw row, where a record is a row and the dataset knows.
    """

    file: str
    problem: str
    record: int | None = None
    offset: int | None = None
    origin: str | None = None


def file_problems(directory: pathlib.Path, published: File) -> Iterator[Problem]:
    """What differs from the manifest: the file is missing, or has another size or digest."""
    path = directory / published.path
    if not path.is_file():
        yield Problem(file=published.path, problem="no such file")
        return
    size = path.stat().st_size
    if size != published.bytes:
        problem = f"{size:,} bytes in place of {published.bytes:,}, as published"
        yield Problem(file=published.path, problem=problem)
    digest = sha256(path)
    if digest != published.sha256:
        problem = f"SHA-256 {digest[:12]}… in place of {published.sha256[:12]}…"
        yield Problem(file=published.path, problem=problem)


def conversion_problems(directory: pathlib.Path) -> Iterator[Problem]:
    """Whether the record of the conversion is damaged, which the manifest does not list."""
    try:
        conversion_record.read(directory)
    except InputError as error:
        yield Problem(file=manifest.CONVERSION_FILE_NAME, problem=error.received)

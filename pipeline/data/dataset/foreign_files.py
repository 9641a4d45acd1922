"""TFRecord files that others wrote, as a dataset: they need no manifest, only indexes by `pipeline.index`.

Standard library and numpy only.
"""

import hashlib
import os
import pathlib
from collections.abc import Iterable

from pipeline.data import ordinary_files
from pipeline.data.dataset import index
from pipeline.data.dataset.manifest import Dataset, File, Manifest, Shard
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema


def open_files(paths: Iterable[str | os.PathLike], schema: Schema, *, split: str = TRAIN) -> Dataset:
    """The records of these files, in this order, as one split of a dataset.

    Its manifest is made up here, from the indexes as they are now.

    Args:
      schema: what to parse; the records must hold each feature under its name, with its type.

    Raises:
      InputError: there are no files, or a file or its index is missing or unreadable.
    """
    absolute = [pathlib.Path(path).absolute() for path in paths]
    if not absolute:
        raise InputError(
            "TFRecord files", received="none", expected="at least one", action="Correct the pattern."
        )
    files = [_with_index(path) for path in absolute]
    shards = tuple(shard for shard, _ in files)
    rows = sum(shard.rows for shard in shards)
    made_up = Manifest(
        name=schema.name,
        version="0.0.0",
        layout="rows",
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint="",
        rows_read=rows,
        rows_rejected=0,
        splits={split: shards},
        files=tuple(file for _, file in files),
    )
    return Dataset(directory=absolute[0].parent, manifest=made_up, schema=schema)


def _with_index(path: pathlib.Path) -> tuple[Shard, File]:
    """The file and its index, both with the digest of the index, which holds a hash of every record."""
    name = index.file_name(str(path))
    content = _read_index(path, name)
    digest, records = hashlib.sha256(content).hexdigest(), len(index.loads(content, name))
    shard = Shard(path=str(path), bytes=path.stat().st_size, sha256=digest, records=records, rows=records)
    return shard, File(path=name, bytes=len(content), sha256=digest)


def _read_index(path: pathlib.Path, name: str) -> bytes:
    try:
        path.stat()
        return ordinary_files.read_bytes(name)
    except FileNotFoundError as error:
        raise InputError(
            f"file {error.filename}",
            received="no such file",
            expected="a TFRecord file and its index beside it",
            action="Correct the path, or run `python -m pipeline.index` on the file.",
        ) from None

"""What may happen to a published dataset, file by file. Each change leaves as little to notice as it can."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping

from pipeline.data.dataset import manifest, shards


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """Something that is done to a dataset.

    Attributes:
      do: function of a file of the dataset, and of that file in another dataset of the same schema.
      of: which file: "shard", "index", "manifest", or "" for the directory of all.
    """

    do: Callable[[pathlib.Path, pathlib.Path], None]
    of: str


def truncated(path: pathlib.Path, other: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: pathlib.Path, other: pathlib.Path) -> None:
    os.truncate(path, 0)


def grown(path: pathlib.Path, other: pathlib.Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def overwritten(path: pathlib.Path, other: pathlib.Path) -> None:
    """In place, with as many bytes, and the old times put back."""
    times, content = path.stat(), path.read_bytes()
    with path.open("r+b") as file:
        file.write(content[::-1])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced(path: pathlib.Path, other: pathlib.Path) -> None:
    """By another file of the same size and times."""
    times, new = path.stat(), path.with_name("new")
    new.write_bytes(path.read_bytes()[::-1])
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(path)


def another(path: pathlib.Path, other: pathlib.Path) -> None:
    shutil.copy2(other, path)


def deleted(path: pathlib.Path, other: pathlib.Path) -> None:
    path.unlink()


def swapped(directory: pathlib.Path, other: pathlib.Path) -> None:
    directory.rename(directory.with_name("before"))
    shutil.copytree(other, directory)


def moved(directory: pathlib.Path, other: pathlib.Path) -> None:
    directory.rename(directory.with_name("before"))


CHANGES: Mapping[str, Change] = {
    "shard truncated": Change(do=truncated, of="shard"),
    "shard emptied": Change(do=emptied, of="shard"),
    "shard grown": Change(do=grown, of="shard"),
    "shard overwritten in place": Change(do=overwritten, of="shard"),
    "shard replaced": Change(do=replaced, of="shard"),
    "shard of another dataset": Change(do=another, of="shard"),
    "shard deleted": Change(do=deleted, of="shard"),
    "index overwritten in place": Change(do=overwritten, of="index"),
    "index replaced": Change(do=replaced, of="index"),
    "index deleted": Change(do=deleted, of="index"),
    "manifest of another dataset": Change(do=another, of="manifest"),
    "manifest deleted": Change(do=deleted, of="manifest"),
    "directory swapped": Change(do=swapped, of=""),
    "directory moved": Change(do=moved, of=""),
}


def changed(directory: pathlib.Path, other: pathlib.Path, change: Change) -> pathlib.Path:
    """Makes the change; returns the file or directory that must be named."""
    shard = sorted(directory.glob("*-train.tfrecord-*"))[-1].name
    name = {"shard": shard, "index": shards.file_name(shard), "manifest": manifest.FILE_NAME, "": ""}
    path = directory / name[change.of]
    change.do(path, other / name[change.of])
    return path

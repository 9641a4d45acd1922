"""Several published datasets of one schema, read as one: the spans of a window, one after the other.

A split has the rows of the first dataset, then the rows of the second, and so on. So everything that takes a
Dataset takes a window: rows, positions and files are numbered over all of its members.
"""

import dataclasses
import functools
import glob
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.manifest import Dataset, File, Manifest, in_order, inner_name, open_dataset

FORMAT = "penstock.window/1"  # goes into the digest


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowManifest(Manifest):
    """The manifest of several datasets as one; files are named from the directory that all of them lie in."""

    digests: tuple[str, ...]  # digests of the members' manifests, in order

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the members' digests in order, whatever their places and names."""
        return hashlib.sha256("\n".join((FORMAT, *self.digests)).encode()).hexdigest()


def open_window(patterns: Sequence[str | os.PathLike]) -> Dataset:
    """Opens the datasets that `patterns` name, directories or globs, as one.

    They are read in the order of `patterns`; the datasets of a glob in the order of their paths, as text. One
    directory gives what `manifest.open_dataset` gives, which also checks every file of each.

    Raises:
      InputError: nothing is named, a glob matches no directory, a directory is named twice, one is not a
        sound dataset, or two differ in schema or layout.
    """
    directories = [found for pattern in patterns for found in _directories(os.fspath(pattern))]
    if not directories:
        raise InputError(
            "--dataset",
            received="no directory",
            expected="at least one, as beam_jobs.convert wrote it",
            action="Name a dataset, or a glob of datasets.",
        )
    _check_distinct(directories)
    return together([open_dataset(directory) for directory in directories])


def together(members: Sequence[Dataset]) -> Dataset:
    """Published datasets as one, in this order; a single one is returned unchanged.

    Raises InputError where two differ in schema or layout.
    """
    if len(members) == 1:
        return members[0]
    first, *others = members
    for other in others:
        _check_alike(first, other)
    directory = _common([member.directory for member in members])
    return Dataset(
        directory=directory,
        manifest=_merged(directory, [(member.directory, member.manifest) for member in members]),
        schema=first.schema,
        members=tuple(members),
    )


def load_manifest(directories: Sequence[pathlib.Path]) -> Manifest:
    """The manifest of the datasets in absolute `directories` as one; reads no other file.

    Raises InputError where a directory has no manifest, or an altered one.
    """
    published = [(directory, manifest_lib.load(directory)) for directory in directories]
    return published[0][1] if len(published) == 1 else _merged(_common(directories), published)


def spans_of(dataset: Dataset) -> tuple[dict[str, str], ...]:
    """The `directory` and `digest` of each of several datasets, for records; nothing for a single one."""
    return tuple(
        {"directory": str(member.directory), "digest": member.manifest.digest} for member in dataset.members
    )


def _directories(pattern: str) -> list[pathlib.Path]:
    """The directory that has this very name, or all that match it as a glob; files do not count."""
    if not glob.has_magic(pattern) or pathlib.Path(pattern).exists():
        return [pathlib.Path(pattern)]
    # Not Path.glob: that takes no absolute pattern.
    paths = sorted(glob.glob(pattern))  # noqa: PTH207
    found = [pathlib.Path(path) for path in paths if pathlib.Path(path).is_dir()]
    if not found:
        raise InputError(
            f"dataset {pattern}",
            received="a glob that matches no directory",
            expected="one that matches datasets, as beam_jobs.convert wrote them",
            action="Correct the glob, and put it in quotes so that the shell leaves it as it is.",
        )
    return found


def _check_distinct(directories: Sequence[pathlib.Path]) -> None:
    seen: dict[str, pathlib.Path] = {}
    for directory in directories:
        before = seen.setdefault(os.path.realpath(directory), directory)
        if before is not directory:
            raise InputError(
                f"dataset {directory}",
                received=f"the directory that {before} names already",
                expected="each dataset once",
                action="Leave one of the two out: its rows would be read twice.",
            )


def _check_alike(first: Dataset, other: Dataset) -> None:
    """Raises InputError unless the records of both are of one schema and layout."""
    layouts = first.manifest.layout, other.manifest.layout
    if layouts[0] != layouts[1]:
        raise _unlike(other, f"layout '{layouts[1]}'", f"'{layouts[0]}', that of {first.directory}")
    schemas = first.schema.fingerprint, other.schema.fingerprint
    if schemas[0] != schemas[1]:
        received = f"a schema of fingerprint {schemas[1][:12]}{_difference(first, other)}"
        raise _unlike(other, received, f"{schemas[0][:12]}, that of {first.directory}")


def _difference(first: Dataset, other: Dataset) -> str:
    was, now = ({feature.name: feature for feature in each.schema.features} for each in (first, other))
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return f", which differs in {', '.join(map(repr, names))}" if names else ""


def _unlike(other: Dataset, received: str, expected: str) -> InputError:
    return InputError(
        f"dataset {other.directory}",
        received=received,
        expected=expected,
        action="Convert both with the same schema and --layout, or read them one by one.",
    )


_File = TypeVar("_File", bound=File)
_Published = tuple[pathlib.Path, Manifest]  # a dataset's directory, and what it holds


def _merged(directory: pathlib.Path, published: Sequence[_Published]) -> WindowManifest:
    manifests = [manifest for _, manifest in published]
    splits = in_order({split for each in manifests for split in each.splits})
    return WindowManifest(
        name=manifests[0].name,
        version=f"of {len(published)} datasets",
        layout=manifests[0].layout,
        schema_fingerprint=manifests[0].schema_fingerprint,
        plan_fingerprint="",
        rows_read=sum(each.rows_read for each in manifests),
        rows_rejected=sum(each.rows_rejected for each in manifests),
        splits={
            split: tuple(
                shard
                for member, each in published
                for shard in _named_from(directory, member, each.splits.get(split, ()))
            )
            for split in splits
        },
        files=tuple(
            file for member, each in published for file in _named_from(directory, member, each.files)
        ),
        digests=tuple(each.digest for each in manifests),
    )


def _common(directories: Sequence[pathlib.Path]) -> pathlib.Path:
    return pathlib.Path(os.path.commonpath(directories))


def _named_from(directory: pathlib.Path, member: pathlib.Path, files: Iterable[_File]) -> Iterator[_File]:
    for file in files:
        yield dataclasses.replace(file, path=inner_name(directory, member, file.path))

"""Files that an input names, on any filesystem that Beam knows."""

import collections
import dataclasses
import glob
import hashlib
import os
import pathlib
import re
import shlex
import stat
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import text
from beam_jobs.sources.source import Input, InputSplit, RawRows, Source
from pipeline.base.errors import InputError
from pipeline.base.files import walk

SPLIT_BYTES = 64 << 20  # 64 MiB
COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
# Names of files that file managers, archivers and Spark leave beside data.
_OF_SYSTEMS = frozenset(
    ["Thumbs.db", "ehthumbs.db", "desktop.ini", "__MACOSX", "_SUCCESS", "_metadata", "_common_metadata"]
)
SNIFFED_BYTES = 12
# The part of a glob before its first wildcard, which names directories.
_FIXED_PART = re.compile(r"[^*?\[]*$|([^*?\[]*/)?")
_NOT_ORDINARY = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_PINNED = re.compile(r"([A-Za-z_]\w*)=(.+)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputFile:
    """One file and the split that it is pinned to."""

    path: str
    bytes: int
    split: str
    stamp: int


class Match(NamedTuple):
    """A file as its file system lists it; the `stamp` combines its size and the time of its last change."""

    bytes: int
    stamp: int


def parse_input(text: str) -> Input:
    """Parses `SPLIT=LOCATION` or `LOCATION`; if a file has the whole text as its name, it is a location."""
    # Not Path.glob: that takes no absolute pattern.
    is_there = os.path.exists(text) or glob.glob(text)  # noqa: PTH110, PTH207
    pinned = None if is_there else _PINNED.fullmatch(text)
    return Input(split=pinned[1], location=pinned[2]) if pinned else Input(location=text)


def list_files(given: Input, *, deep: bool = False) -> list[InputFile]:
    """The files that `given` names, in path order, hidden ones left out; raises InputError if there are none.

    A directory stands for the files in it, and in folders such as `date=2026-11-01`; if `deep`, for the files
    in all of its folders.
    """
    location = given.location.rstrip("/") if len(given.location) > 1 else given.location
    check_reachable(location, thing=f"--input={location}")
    # A name may hold characters of a glob: so a directory or file of exactly this name comes first.
    if os.path.isdir(location) or not (_is_glob(location) or FileSystems.exists(location)):  # noqa: PTH112
        folder = FileSystems.join(location, "")
        found = _match_in(folder, "**", lambda parts: deep or all(map(FOLDER.fullmatch, parts)))
    elif FileSystems.exists(location):
        found = _match(_literal(location))
    else:
        folder = _FIXED_PART.match(location)[0]
        pattern = location[len(folder) :]
        found = _match_in(folder, pattern, lambda parts: _may_hold(pattern.split("/"), parts))
    files = [
        InputFile(path=path, bytes=match.bytes, split=given.split, stamp=match.stamp)
        for path, match in sorted(found.items())
    ]
    if not files:
        raise _nothing_at(given.location)
    for file in files:
        if not file.bytes:  # pipes and devices have no bytes
            _check_ordinary(file.path)
    return files


def one_split_a_file(inputs: Iterable[Input]) -> list[InputSplit]:
    """An input split for each file that is not empty; raises InputError if all files of an input are empty,
    or files of the same kind lie in folders that the input does not stand for.

    Where an input may be empty, one of its empty files stands for all of them.
    """
    found: list[InputFile] = []
    for given in inputs:
        listed = list_files(given)
        _check_none_left(given.location.rstrip("/"), [file.path for file in listed])
        if not given.may_be_empty:
            check_not_empty(listed)
        found += [file for file in listed if file.bytes] or listed[:1]
    root = common_root(file.path for file in found)
    return [
        InputSplit(paths=(file.path,), stamps=(file.stamp,), root=root, bytes=file.bytes, split=file.split)
        for file in found
    ]


def ranges(size: int, split_bytes: int) -> list[tuple[int, int]]:
    """Returns [start, end) of parts of nearly equal size, at most about `split_bytes`."""
    parts = max(1, -(-size // split_bytes))
    return [(size * part // parts, size * (part + 1) // parts) for part in range(parts)]


def check_reachable(location: str, *, thing: str) -> None:
    """Raises InputError where Beam has no file system for the location, or lacks a package for it."""
    try:
        FileSystems.get_filesystem(location)
    except ValueError as error:
        raise InputError(
            thing,
            received=str(error),
            expected="a local path, or a location that Beam reaches",
            action="For gs://: pip install -r requirements/gcp.txt, or 'penstock[gcp]'.",
        ) from None


def is_compressed(path: str) -> bool:
    return _ending(path) in COMPRESSION


def _ending(path: str) -> str:
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 - it may be "gs://"


def open_seekable(path: str) -> pa.NativeFile:
    """The bytes of a file as they are stored."""
    return pa.PythonFile(FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED), mode="r")


def open_stream(path: str, *, is_compressed: Callable[[bytes], bool] | None = None) -> pa.NativeFile:
    """The bytes of a file, decompressed if its name says so.

    Args:
      is_compressed: decides instead of the name, from the first `SNIFFED_BYTES`, whether the file is gzip or
        zlib.
    """
    compression = COMPRESSION.get(_ending(path))
    if is_compressed:
        with open_seekable(path) as stream:
            # Arrow's gzip reads zlib too.
            compression = "gzip" if is_compressed(stream.read(SNIFFED_BYTES)) else None
    return pa.input_stream(open_seekable(path), compression=compression)


def read_bytes(path: str, *, start: int = 0, size: int = -1) -> bytes:
    """The bytes of a file as they are stored, from `start` on; -1: all of them."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        if start:
            file.seek(start)
        return file.read(size)


def write_bytes(path: str, content: bytes) -> None:
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(content)


def directory_of(path: str) -> str:
    """The directory that a file is in."""
    directory, slash, _ = path.rpartition("/")
    return directory or slash or "."


def common_root(locations: Iterable[str]) -> str:
    """The longest directory, with its `/`, that all `locations` are in."""
    prefix = os.path.commonprefix(list(locations))  # noqa: RUF071 - commonpath would spoil "gs://"
    return prefix[: prefix.rfind("/") + 1]


def check_not_empty(files: Sequence[InputFile]) -> None:
    """Raises InputError if all `files` together hold no byte."""
    if not any(file.bytes for file in files):
        raise InputError(
            f"input {files[0].path}" + (f" and {len(files) - 1} more" if len(files) > 1 else ""),
            received="0 bytes",
            expected="files with rows in them",
            action="Check how these files were written.",
        )


def _check_ordinary(path: str) -> None:
    """Raises InputError for a path that may be endless or block for ever: only a file has a size to plan
    with.
    """
    if "://" in path:
        return
    kind = stat.S_IFMT(pathlib.Path(path).stat().st_mode)
    if kind != stat.S_IFREG:
        raise InputError(
            f"input {path}",
            received=_NOT_ORDINARY.get(kind, "something else"),
            expected="an ordinary file",
            action="Write what it gives to a file, and name that.",
        )


def stamp(size: int, changed: float) -> int:
    """A number that stays the same until a file of `size` bytes is changed; `changed` is in seconds since
    1970.
    """
    return hash((size, changed))


def match_inside(folder: str) -> dict[str, Match]:
    """The files in a folder and in its folders, by their paths."""
    return _match(FileSystems.join(_literal(folder), "**"))


def _match_in(folder: str, pattern: str, enters: Callable[[Sequence[str]], bool]) -> dict[str, Match]:
    """The files below `folder` that the glob matches, by their paths, hidden ones left out.

    `enters` gets the parts of a folder's path below `folder`, and says whether its files are wanted.
    """

    def is_wanted(path: str) -> bool:
        inside = path[len(folder) :]
        return enters(inside.split("/")[:-1]) and not _is_hidden(inside)

    if "://" in folder:
        return {path: match for path, match in _match(_literal(folder) + pattern).items() if is_wanted(path)}
    # Beam's own matching is not used: it skips linked folders, dangling links, and folders that it may not
    # list.
    whole, found = re.compile(FileSystem.translate_pattern(pattern)), {}
    if not os.path.isdir(folder or "."):  # noqa: PTH112
        return {}
    try:
        for path, status in walk(folder, enters=lambda inner: is_wanted(f"{inner}/"), once=True):
            if whole.match(path[len(folder) :]) and is_wanted(path):
                found[path] = _measured(path, status)
    except OSError as error:
        raise InputError(
            f"input {error.filename}",
            received=error.strerror,
            expected="folders that this command can list, each by one path, and links to what is there",
            action="Remove the link, or name the files by a glob that leaves it out. Correct the permissions "
            "where those are the cause.",
        ) from None
    return found


def _check_none_left(location: str, found: Sequence[str]) -> None:
    """Raises InputError where a directory, `location`, holds files of the kinds of those `found` in folders
    that it does not stand for.
    """
    if "://" in location or not os.path.isdir(location):  # noqa: PTH112
        return
    kinds = {_kind(path) for path in found}
    left = next((path for path in _in_other_folders(location) if _kind(path) in kinds), None)
    if left:
        is_flat = all(directory_of(path) == location for path in found)
        own = f"{location}/{'*' if is_flat else '*=*/**'}{_kind(left)}"
        raise InputError(
            f"--input={location}",
            received=f"files in folders that are not read, such as {left}",
            expected="files in the folder itself, or in folders with names such as day=2026-11-01",
            action=f"To read them too: {shlex.quote(f'--input={location}/**{_kind(left)}')}; to leave them "
            f"out: {shlex.quote(f'--input={own}')}.",
        )


def _in_other_folders(location: str) -> Iterator[str]:
    """Yields the files, hidden ones aside, of folders in `location` that it does not stand for. It enters
    links to folders elsewhere, not links within these.
    """
    for folder, names, files in os.walk(location):
        inside = [part for part in folder[len(location) :].split("/") if part]
        names[:] = sorted(name for name in names if not _is_hidden(name))
        if not all(map(FOLDER.fullmatch, inside)):
            yield from (f"{folder}/{name}" for name in sorted(files) if not _is_hidden(name))
            continue
        own = os.path.realpath(location)
        for path in (f"{folder}/{name}" for name in names if not FOLDER.fullmatch(name)):
            real = os.path.realpath(path)
            if os.path.islink(path) and os.path.commonpath([own, real]) not in (own, real):  # noqa: PTH114
                yield from (
                    f"{within}/{name}" for within, _, files in os.walk(path) for name in sorted(files)
                )


def _kind(path: str) -> str:
    """The ending of a file's name, with that of its compression."""
    ending = _ending(path)
    return f"{_ending(path.removesuffix(ending))}{ending}" if ending in COMPRESSION else ending


def _measured(path: str, status: os.stat_result | OSError) -> Match:
    if isinstance(status, OSError):
        reason = f"a link to {os.readlink(path)}, which cannot be followed ({status.strerror})"  # noqa: PTH115
        raise OSError(status.errno, reason, path)
    return Match(status.st_size, stamp(status.st_size, status.st_mtime))


def _may_hold(patterns: Sequence[str], parts: Sequence[str]) -> bool:
    """Returns whether a folder, `parts`, may hold files that a glob, `patterns`, matches; both are split at
    `/`.
    """
    for number, part in enumerate(parts):
        if "**" in patterns[number]:
            return True
        if number == len(patterns) - 1 or not re.match(FileSystem.translate_pattern(patterns[number]), part):
            return False
    return True


def _nothing_at(location: str) -> InputError:
    received, action = "no file there", "Correct the path."
    pattern = f"{glob.escape(location)}/*" if os.path.isdir(location) else location  # noqa: PTH112
    folders = sorted(filter(os.path.isdir, glob.glob(pattern)))  # noqa: PTH207
    if folders:
        received = f"folders alone, such as {folders[0]}"
        action = f"Name the files in them: {shlex.quote(f'--input={pattern}/*')}."
    elif os.path.islink(location):  # noqa: PTH114
        received = f"a link to {os.readlink(location)}, which is not there"  # noqa: PTH115
    return InputError(
        f"--input={location}",
        received=received,
        expected="a file, a directory with files, or a glob that matches some",
        action=action,
    )


def _match(pattern: str) -> dict[str, Match]:
    """The files that the glob matches, by their paths."""
    try:
        matched = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, ValueError) as error:  # ValueError: no filesystem for this scheme
        raise InputError(
            f"input {pattern}",
            received=str(error),
            expected="a readable location",
            action="Correct the path, or the permissions on it.",
        ) from None
    return {
        match.path: Match(match.size_in_bytes, stamp(match.size_in_bytes, match.last_updated_in_seconds))
        for match in matched
    }


def _literal(name: str) -> str:
    """The glob that matches `name` alone."""
    return re.sub(r"[*?\[]", r"[\g<0>]", name)


def _is_glob(location: str) -> bool:
    return any(character in location for character in "*?[")


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") or part in _OF_SYSTEMS for part in path.split("/"))


# --- Files that were written twice.


_HEAD_BYTES = 64 << 10  # 64 KiB; only files that begin alike are read to their ends


def copies(input_splits: Iterable[InputSplit]) -> dict[str, str]:
    """The name of the first file with the same bytes, by the names of the files that repeat it.

    Files without rows are left out, and so are folders of images, where a file is one row.
    """
    sizes: collections.Counter[str] = collections.Counter()
    names: dict[str, str] = {}
    for each in input_splits:
        if len(each.paths) == len(each.stamps) == 1 and each.bytes:
            sizes[each.paths[0]] += each.bytes
            names.setdefault(each.paths[0], each.file_names[0])
    alike = _grouped([[*sizes]], sizes.__getitem__)
    alike = _grouped(alike, lambda path: read_bytes(path, size=_HEAD_BYTES))
    return {names[path]: names[first] for first, *others in _grouped(alike, _digest) for path in others}


def _grouped(groups: Iterable[Sequence[str]], key: Callable[[str], object]) -> list[list[str]]:
    """Parts each group into those of an equal key, and leaves out what is alone."""
    found: list[list[str]] = []
    for group in groups:
        parts: dict[object, list[str]] = {}
        for path in group:
            parts.setdefault(key(path), []).append(path)
        found += [part for part in parts.values() if len(part) > 1]
    return found


def _digest(path: str) -> bytes:
    found = hashlib.sha256()
    with open_seekable(path) as stream:
        while block := stream.read(1 << 20):
            found.update(block)
    return found.digest()


# --- Columns in the names of folders, as Hive writes them: `raw/date=2026-11-01/town=Z%C3%BCrich/part.csv`.


MISSING_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # what Hive and Spark write for a missing value
FOLDER = re.compile(r"([^/=]+)=([^/]*)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithPartitions:
    """Adds the columns that folder names give to a source's columns: all, or those in `columns`.

    A file's own column of the same name wins; in rows that name their columns, a row's own value wins.
    """

    source: Source
    columns: Collection[str] | None = None

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return self.source.input_splits(inputs)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        """Raises InputError for a folder whose value is not UTF-8."""
        of_files = [partition_values(path) for path in input_split.paths]
        names = dict.fromkeys(name for values in of_files for name in values)
        wanted = [name for name in names if self.columns is None or name in self.columns]
        for raw in self.source.read(input_split):
            yield _with_columns(raw, {name: [values.get(name) for values in of_files] for name in wanted})


def partition_values(path: str) -> dict[str, str | None]:
    """The value of each column that a folder of `path` names, None where it is missing.

    Where two folders name one column, the inner one wins. Raises InputError for what is not UTF-8.
    """
    folders = path.rpartition("/")[0].split("/")
    found = (FOLDER.fullmatch(folder) for folder in folders)
    pairs = ((each[1], each[2]) for each in found if each)
    return {
        _decoded(name, path): None if value == MISSING_PARTITION else _decoded(value, path)
        for name, value in pairs
    }


def _decoded(name: str, path: str) -> str:
    try:
        return urllib.parse.unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise InputError(
            f"input {path}",
            received=f"a folder with {name!r}, which is not UTF-8 once its % are decoded",
            expected="names and values of partition columns in UTF-8",
            action="Rename the folder.",
        ) from None


def _with_columns(raw: RawRows, columns: Mapping[str, list[str | None]]) -> RawRows:
    """Returns `raw` with the columns; each has a value for each of the input split's files."""
    batch = raw.columns
    for name, of_files in columns.items():
        at = batch.schema.get_field_index(name)
        if at >= 0 and not raw.sparse:
            continue
        files = np.zeros(batch.num_rows, np.int64) if raw.files is None else raw.files
        cells = pa.array(of_files, pa.string()).take(pa.array(files))
        if at < 0:
            batch = batch.append_column(name, cells)
        elif batch.column(at).null_count:
            own = text.to_bytes(batch.column(at))
            batch = batch.set_column(at, name, pc.coalesce(own, cells.cast(own.type)))
    return raw if batch is raw.columns else dataclasses.replace(raw, columns=batch)


# --- Inputs that change while they are read.


def check_unchanged(input_splits: Sequence[InputSplit]) -> None:
    """Raises InputError where a file of `input_splits` is no longer as it was when it was listed."""
    listed = {
        path: stamp
        for input_split in input_splits
        for path, stamp in zip(input_split.paths, input_split.stamps, strict=False)
    }
    found = _found(listed)
    for path, stamp in listed.items():
        if found.get(path) != stamp:
            raise InputError(
                f"input {path}",
                received="another size or time of change than before it was read"
                if path in found
                else "no such file any more",
                expected="files that stay as they are while they are read",
                action="Nothing was published. Run again when nothing writes there, or copy the files first.",
            )


def _found(paths: Iterable[str]) -> Mapping[str, int]:
    """The stamps that the files have now; those that are gone have none."""
    found = {}
    folders: set[str] = set()
    for path in paths:
        if "://" in path:  # there, asking for each file takes too long
            folders.add(directory_of(path))
            continue
        try:
            status = os.stat(path)  # noqa: PTH116 - once a file, of which there may be millions
        except FileNotFoundError:
            continue
        found[path] = stamp(status.st_size, status.st_mtime)
    for folder in folders:
        found |= {path: match.stamp for path, match in match_inside(folder).items()}
    return found

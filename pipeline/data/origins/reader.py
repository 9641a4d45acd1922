"""Looks up where rows of a published dataset came from, in the files of its folder `origins/`.

The manifest does not list them: they hold names of raw files, which the dataset's digest does not depend on.
So each holds its own checksums, and may be deleted. A look-up reads some kilobytes, whatever the size of the
dataset. Standard library and numpy only.
"""

import bz2
import collections
import contextlib
import dataclasses
import functools
import gzip
import pathlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO, NamedTuple, TypeVar

import numpy as np

from pipeline.base.errors import DamagedError, InputError, printable
from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import Dataset, Manifest, Shard
from pipeline.data.dataset.selection import Selection
from pipeline.data.origins import files
from pipeline.data.origins.files import ANY_LINE_END, Entry, Folder, Origin

FOLDER = "origins"
FILES_NAME = f"{FOLDER}/files"
_KEPT = 64  # chunks of names that are kept

_Read = TypeVar("_Read")


def file_name(shard: str) -> str:
    """Relative path of the origins of the shard that is called `shard`.

    `x-train.tfrecord-00000-of-00008` gives `origins/x-train-00000-of-00008.rows`.
    """
    return f"{FOLDER}/{shards.file_name(shard).removesuffix('.index')}.rows"


class OriginsError(InputError):
    """Raised where the file at `path` is damaged, or belongs to another dataset."""

    path: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shard:
    path: pathlib.Path
    header: files.Header


class Found(NamedTuple):
    """A row in a part of a raw file."""

    entry: Entry
    row: int  # number in the part, from 1; 0 where the file is one row

    @property
    def origin(self) -> Origin:
        return Origin(self.entry.name, self.entry.rows_before + self.row if self.row else None)


class Origins:
    """Tells where each row of a dataset came from. It reads files at each look-up and holds no rows;
    `origins_of` opens one.
    """

    def __init__(self, directory: pathlib.Path, manifest: Manifest) -> None:
        self._directory = directory
        self._published = {shard.path: shard for shards in manifest.splits.values() for shard in shards}
        self._path = directory / FILES_NAME
        self._head = _checked(self._path, self._read_head)
        self._shards: dict[str, _Shard | None] = {}
        self._entries: dict[int, list[Entry]] = {}

    @functools.cached_property
    def folder(self) -> Folder:
        """The directory that all raw files were in, and how their lines end."""
        return _checked(self._path, lambda: files.folder(self._chunk_of_files(0), self._head))

    def of(self, shard: str, ordinal: int) -> Origin | None:
        """The origin of a row of the shard that the manifest calls `shard`; `ordinal` counts its rows from 0.

        None where the shard has no file of origins. Raises InputError where that file is damaged, or belongs
        to another dataset, and IndexError or KeyError where the dataset has no such row or shard.
        """
        return self.of_rows(shard, np.array([ordinal]))[0]

    def of_rows(self, shard: str, ordinals: np.ndarray) -> list[Origin | None]:
        """`of` for many rows of one shard, int64 [n], at once."""
        found = self.found(shard, ordinals)
        return [None if place is None else place.origin for place in found]

    def found(self, shard: str, ordinals: np.ndarray) -> list[Found | None]:
        """The rows that `of_rows` gives, each with the part of a file that holds it."""
        if len(ordinals) and not 0 <= ordinals.min() <= ordinals.max() < self._published[shard].rows:
            raise IndexError(f"{shard} has {self._published[shard].rows:,} rows")
        opened = self._opened(shard)
        if opened is None:
            return [None] * len(ordinals)
        numbers, in_part = self._places(opened, ordinals)
        return [
            Found(self._entry(at), row) for at, row in zip(numbers.tolist(), in_part.tolist(), strict=True)
        ]

    def check(self, shard: str) -> None:
        """Reads all of a shard's origins; raises InputError as `of` does, and also where its file is
        missing.
        """
        opened = self._opened(shard)
        if opened is None:
            raise _damaged(self._directory / file_name(shard), "no such file")
        if opened.path.stat().st_size != opened.header.bytes:
            raise _damaged(opened.path, f"{opened.path.stat().st_size:,} bytes")
        numbers = [np.unique(of_chunk) for of_chunk, _ in self._chunks(opened, range(opened.header.chunks))]
        for number in np.unique(np.concatenate([np.zeros(0, np.int64), *numbers])).tolist():
            self._entry(number)

    def check_files(self) -> None:
        """Reads the whole list of files; raises InputError where it is damaged."""
        size = self._path.stat().st_size
        if size != self._head.offsets[-1]:
            raise _damaged(self._path, f"{size:,} bytes")
        for chunk in range(len(self._head.checksums)):
            _checked(self._path, lambda chunk=chunk: self._check_chunk(chunk))

    def _check_chunk(self, chunk: int) -> None:
        files.check(self._chunk_of_files(chunk), self._head, chunk)

    def _opened(self, shard: str) -> _Shard | None:
        if shard not in self._shards:
            path = self._directory / file_name(shard)
            read = functools.partial(self._open, path, self._published[shard])
            self._shards[shard] = _checked(path, read) if path.exists() else None
        return self._shards[shard]

    def _open(self, path: pathlib.Path, published: Shard) -> _Shard:
        header = files.header(_bytes(path, 0, files.HEADER_BYTES))
        if (header.shard_sha256, header.rows) != (published.sha256, published.rows):
            raise DamagedError(f"origins of a shard with SHA-256 {header.shard_sha256[:12]}…")
        if header.files_id != self._head.files_id:
            raise DamagedError(f"origins that do not go with {FILES_NAME}")
        return _Shard(path=path, header=header)

    def _places(self, shard: _Shard, ordinals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of files, and of rows in them, int64 [n] each."""
        numbers, in_file = np.zeros(len(ordinals), np.int64), np.zeros(len(ordinals), np.int64)
        chunk = ordinals // files.CHUNK_ROWS
        wanted = np.unique(chunk).tolist()
        for number, (of_chunk, rows_there) in zip(wanted, self._chunks(shard, wanted), strict=True):
            mine = chunk == number
            numbers[mine] = of_chunk[ordinals[mine] % files.CHUNK_ROWS]
            in_file[mine] = rows_there[ordinals[mine] % files.CHUNK_ROWS]
        return numbers, in_file

    def _chunks(self, shard: _Shard, wanted: list[int] | range) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for number in wanted:
            yield _checked(shard.path, lambda number=number: _read_chunk(shard, number))

    def _entry(self, number: int) -> Entry:
        chunk, place = self._head.chunk_of(number)
        if chunk not in self._entries:
            if len(self._entries) >= _KEPT:
                self._entries.pop(next(iter(self._entries)))
            self._entries[chunk] = _checked(self._path, lambda: self._read_entries(chunk))
        return self._entries[chunk][place]

    def _read_entries(self, chunk: int) -> list[Entry]:
        if chunk >= len(self._head.checksums):
            raise DamagedError("too few files")
        return files.entries(self._chunk_of_files(chunk), self._head, chunk)

    def _chunk_of_files(self, chunk: int) -> bytes:
        start, end = self._head.offsets[chunk : chunk + 2].tolist()
        return _bytes(self._path, start, end - start)

    def _read_head(self) -> files.Head:
        size = files.head_bytes(_bytes(self._path, 0, files.HEAD_BYTES))
        return files.head(_bytes(self._path, 0, min(size, self._path.stat().st_size)))


def origins_of(dataset: Dataset) -> Origins | None:
    """The origins of the rows of `dataset`; None where there are none: see `open_origins`."""
    return open_origins(dataset.directory, dataset.manifest)


def of_selected(selection: Selection) -> list[Origin | None]:
    """The origin of each selected row, in stored order; None where there are none.

    Raises InputError where the files of origins are damaged.
    """
    found: list[Origin | None] = []
    opened: dict[pathlib.Path, Origins | None] = {}
    shards = selection.shards
    for first, end in selection.ranges:
        for shard in range(shards.shard_of_row(first), shards.shard_of_row(end - 1) + 1):
            begins, ends = shards.row_starts[shard : shard + 2].tolist()
            ordinals = np.arange(max(first, begins), min(end, ends)) - begins
            owner, name = selection.dataset.owner(shards.names[shard])
            if owner.directory not in opened:
                opened[owner.directory] = origins_of(owner)
            origins = opened[owner.directory]
            found += origins.of_rows(name, ordinals) if origins else [None] * len(ordinals)
    return found


def open_origins(directory: pathlib.Path, manifest: Manifest) -> Origins | None:
    """Opens the origins; None where `--noorigins` wrote the dataset, or they were deleted.

    Raises InputError where the list of files is damaged.
    """
    return Origins(directory, manifest) if (directory / FILES_NAME).exists() else None


def damage(directory: pathlib.Path, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Name and problem of each file of origins that is not as it was written; none if there is no folder."""
    if not (directory / FOLDER).exists():
        return
    problems: dict[str, str] = {}
    with _collected(problems):
        origins = Origins(directory, manifest)
        with _collected(problems):
            origins.check_files()
        for shard in (shard for shards in manifest.splits.values() for shard in shards):
            with _collected(problems):
                origins.check(shard.path)
    for path, problem in problems.items():
        yield str(pathlib.Path(path).relative_to(directory)), problem


@contextlib.contextmanager
def _collected(problems: dict[str, str]) -> Iterator[None]:
    try:
        yield
    except OriginsError as error:
        problems[error.path] = error.received


def _read_chunk(shard: _Shard, number: int) -> tuple[np.ndarray, np.ndarray]:
    offset, count = shard.header.chunk(number)
    return files.unpack_rows(_bytes(shard.path, offset, shard.header.chunk_bytes(count)), shard.header, count)


def _bytes(path: pathlib.Path, offset: int, size: int) -> bytes:
    if not path.is_file():  # does not wait for a pipe
        raise DamagedError("no ordinary file")
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(size)


def _checked(path: pathlib.Path, read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except (DamagedError, OSError) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: pathlib.Path, received: str) -> OriginsError:
    error = OriginsError(
        f"dataset file {path}",
        received=received,
        expected="the origins of rows that beam_jobs.convert wrote there",
        action=f"Restore the file, or delete the folder {FOLDER}: the dataset is whole without it.",
    )
    error.path = str(path)
    return error


# --- Raw rows, for messages about a few rows. Rows that are missing, changed or damaged are left out; nothing
# fails.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRow:
    origin: Origin
    folder: str  # the directory that `origin.file` is in: an absolute path, or a location such as gs://…/
    is_line: bool  # whether `origin.row` is a line of the file
    # As it stands in the file; None where it is not text, was changed since, or cannot be reached.
    text: str | None

    def __str__(self) -> str:
        """`visits.csv line 26`, in one line whatever the file is called."""
        place = "" if self.origin.row is None else f" {'line' if self.is_line else 'row'} {self.origin.row:,}"
        return printable(self.origin.file + place)


def raw_rows(dataset: Dataset, places: Sequence[tuple[str, int]]) -> list[RawRow | None]:
    """The raw row of each of `places`: the manifest's name of a shard, and a row's number in it, from 0.

    `penstock.open(…).train.source()` gives rows in the order of such places; `raw` and `batches` shuffle.
    None where the dataset does not know: `--noorigins` wrote it, or its origins were deleted or are damaged
    (`verify` says so). A text is read from at most 256 MiB of its file.
    """
    found: list[RawRow | None] = [None] * len(places)
    by_dataset = collections.defaultdict(list)
    for at, (shard, row) in enumerate(places):
        owner, name = dataset.owner(shard)
        by_dataset[owner.directory].append((at, owner, (name, row)))
    for some in by_dataset.values():
        for (at, *_), raw in zip(some, _of_published(some[0][1], [one for *_, one in some]), strict=True):
            found[at] = raw
    return found


def _of_published(dataset: Dataset, places: Sequence[tuple[str, int]]) -> list[RawRow | None]:
    with contextlib.suppress(InputError):  # the list of files is damaged
        if origins := origins_of(dataset):
            return _with_texts(_found(origins, places), origins)
    return [None] * len(places)


def _found(origins: Origins, places: Sequence[tuple[str, int]]) -> list[Found | None]:
    found: list[Found | None] = [None] * len(places)
    by_shard = collections.defaultdict(list)
    for at, (shard, _) in enumerate(places):
        by_shard[shard].append(at)
    for shard, some in by_shard.items():
        with contextlib.suppress(InputError):  # the origins of this shard are damaged
            ordinals = np.array([places[at][1] for at in some], np.int64)
            for at, place in zip(some, origins.found(shard, ordinals), strict=True):
                found[at] = place
    return found


def _with_texts(found: Sequence[Found | None], origins: Origins) -> list[RawRow | None]:
    folder = origins.folder
    wanted = collections.defaultdict(set)
    for place in found:
        if place and place.row and folder.line_ends:
            wanted[place.entry].add(place.row)
    texts = {
        entry: text_rows(pathlib.Path(folder.root + entry.name), entry, lines, folder.line_ends)
        for entry, lines in wanted.items()
    }
    return [
        place
        and RawRow(
            origin=place.origin,
            folder=folder.root,
            is_line=bool(folder.line_ends),
            text=texts.get(place.entry, {}).get(place.row),
        )
        for place in found
    ]


# --- Rows of a file of lines, read again by the numbers of their lines.

_MOST_READ = 256 << 20  # 256 MiB; a part of a file that is not compressed has 64 MiB
_MOST_OF_ROW = 16 << 10  # 16 KiB
_BLOCK = 1 << 20
_COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open}
_UNREADABLE = (".zst",)  # compressions that the standard library cannot read
_LF = ord("\n")
# The place before a quoted cell. A quote within a cell, as in `5" pipe`, opens nothing, since no delimiter
# stands before it. The delimiter is not known here, but it is never a letter, space or bracket.
_BEFORE_CELL = rb"""(?:\A|(?<=\t)|(?<=[^\w\s"'()\[\]{}<>\x80-\xff]))"""


def text_rows(path: pathlib.Path, part: Entry, lines: Collection[int], line_ends: str) -> dict[int, str]:
    """The rows that begin on `lines` of a part, counted from 1, without the end of the last line.

    A row of CSV may have several lines. A row of more than 16 KiB is cut. Rows that are not found are left
    out. If the file's size has changed since the conversion, no row is returned.
    """
    try:
        if not path.is_file() or path.stat().st_size != part.file_bytes or path.suffix.lower() in _UNREADABLE:
            return {}
        with _COMPRESSED.get(path.suffix.lower(), open)(path, "rb") as file:
            file.seek(part.start)
            found = _starting_on(_blocks(file, line_ends), lines)
    # Raised if it is unreadable, no longer compressed, or its name has a 0 in it.
    except (OSError, EOFError, ValueError):
        return {}
    return {line: _row(text, line_ends).decode("utf-8", "backslashreplace") for line, text in found.items()}


def _blocks(file: IO[bytes], line_ends: str) -> Iterator[bytes]:
    """Reads the rest of the file; all lines then end in \\n."""
    held = b""
    for _ in range(_MOST_READ // _BLOCK):
        block = file.read(_BLOCK)
        if line_ends.startswith(ANY_LINE_END):
            block, held = held + block, b""
            if block.endswith(b"\r") and len(block) > 1:  # a \n may follow
                block, held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not block:
            return
        yield block


def _starting_on(blocks: Iterator[bytes], lines: Collection[int]) -> dict[int, bytes]:
    """The bytes of the file from each of `lines` on, as many as a row may have."""
    found: dict[int, bytearray] = {}
    waiting = sorted(lines)
    first = 1  # number of the line in which the block begins
    before = b"\n"  # the byte before the block
    for block in blocks:
        for text in found.values():
            if len(text) < _MOST_OF_ROW:
                text += block[: _MOST_OF_ROW - len(text)]
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        if before == b"\n" and waiting and waiting[0] == first:
            found[waiting.pop(0)] = bytearray(block[:_MOST_OF_ROW])
        while waiting and waiting[0] - first - 1 < len(ends) and waiting[0] > first:
            start = int(ends[waiting[0] - first - 1]) + 1
            if start == len(block):  # the line begins with the next block
                break
            found[waiting.pop(0)] = bytearray(block[start : start + _MOST_OF_ROW])
        first += len(ends)
        before = block[-1:]
        if not waiting and all(len(text) >= _MOST_OF_ROW for text in found.values()):
            break
    return {line: bytes(text) for line, text in found.items()}


def _row(text: bytes, line_ends: str) -> bytes:
    """The row that `text` begins with: a cell of CSV in quotes may have several lines."""
    for found in _cell_or_end(line_ends).finditer(text) if line_ends.startswith(ANY_LINE_END) else ():
        if found[0] == b"\n":
            return text[: found.start()]
        if found.groupdict().get("close") == b"":
            break  # the cell is longer than a row may be
    return text.partition(b"\n")[0].removesuffix(b"\r")


@functools.cache
def _cell_or_end(line_ends: str) -> re.Pattern[bytes]:
    """A pattern that matches what may hold a line end (a cell in quotes, or an escape), or the end of a
    row.
    """
    quote, escape = map(str.encode, line_ends.split(" ")[1:] or ('"', "none"))
    found = [] if escape == b"none" else [re.escape(escape) + rb"."]
    if quote != b"none":
        within = b"".join(map(re.escape, (quote, b"" if escape == b"none" else escape)))
        parts = b"|".join([rb"[^%b]++" % within, 2 * re.escape(quote), *found])
        found.append(rb"%b%b(?:%b)*+(?P<close>%b?)" % (_BEFORE_CELL, quote, parts, quote))
    return re.compile(b"|".join([*found, rb"\n"]), re.DOTALL)

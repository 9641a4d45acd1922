"""The text column of any source as rows of tokens: `tokens` and `segments`, each of one length.

The documents of an input split come in the order of the file, so packing depends on the input split alone,
not on the workers or on other files. A *pack* is a run of documents that fills at least `_ROWS_IN_PACK` rows.
All of its rows go to one split, so no document is cut between train and test. On average, less than 1 token
in 2·`_ROWS_IN_PACK` is padding. Rows of a document of hundreds of MiB leave before its end is read.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.text import CUT, Problems, decode
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, Source, excerpt
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import PADDING, Tokenizer
from pipeline.data.schema.schema import SEGMENTS

# --- Documents of any length → rows of one length, with segments.
#
# For example, the documents [5 6 1] [7 1] [8 9 1] give these rows of 4:
#   tokens   5 6 1 7 | 1 8 9 1        a document continues in the next row
#   segments 1 1 1 2 | 1 2 2 2        each row numbers its documents from 1; 0 is padding


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """`tokens`, `segments`: int32 [rows, length]; `first`, `begun`: int32 [rows], the document in which a row
    begins, and how many documents begin in the row.
    """

    tokens: np.ndarray
    segments: np.ndarray
    first: np.ndarray
    begun: np.ndarray

    def parts(self, rows: int) -> Iterator["PackedRows"]:
        """The same rows, at most `rows` at once; one part without rows if there are none."""
        for start in range(0, max(1, len(self.tokens)), rows):
            some = slice(start, start + rows)
            yield PackedRows(self.tokens[some], self.segments[some], self.first[some], self.begun[some])


def packed(documents: Sequence[np.ndarray], length: int) -> PackedRows:
    """Packs `documents`, int32 [tokens] each, one after the other; only the last row is padded."""
    sizes = np.array([len(document) for document in documents], np.int64)
    total = int(sizes.sum())
    rows = -(-total // length)
    tokens = np.full(rows * length, PADDING, np.int32)
    document_of = np.full(rows * length, -1, np.int32)
    if rows:
        np.concatenate(documents, out=tokens[:total])
        document_of[:total] = np.repeat(np.arange(len(documents), dtype=np.int32), sizes)
    first = document_of[::length].copy()
    # Documents without tokens must not leave gaps between the numbers.
    rank = np.cumsum(sizes > 0, dtype=np.int32)
    segments = rank[document_of].reshape(rows, length)
    segments -= rank[first][:, np.newaxis] - 1
    segments.ravel()[total:] = 0
    starts = (np.cumsum(sizes) - sizes)[sizes > 0]
    begun = np.bincount(starts // length, minlength=rows).astype(np.int32)
    return PackedRows(tokens.reshape(rows, length), segments, first, begun)


def one_a_row(documents: Sequence[np.ndarray], length: int) -> PackedRows:
    """Puts each of `documents`, int32 [tokens], into a row of its own, cut or padded to `length`."""
    tokens = np.full((len(documents), length), PADDING, np.int32)
    segments = np.zeros((len(documents), length), np.int32)
    for row, document in enumerate(documents):
        kept = document[:length]
        tokens[row, : len(kept)] = kept
        segments[row, : len(kept)] = 1
    return PackedRows(tokens, segments, np.arange(len(documents), dtype=np.int32), segments[:, 0].copy())


# --- Texts in parts of a few MiB, so that a long text takes no more memory than many short ones.


# A tokenizer takes up to 100 bytes for a token while it works. Texts of up to this size are tokenised as a
# whole.
TEXT_PART_BYTES = 4 << 20  # 4 MiB


class Part(NamedTuple):
    """A text, or a part of a longer one; `is_last` says that the text ends with it."""

    text: str
    is_last: bool


def text_runs(texts: pa.StringArray, *, part_bytes: int) -> Iterator[list[Part]]:
    """Yields the texts that have characters, in order, at most `part_bytes` at once.

    A longer text is cut before its last blank or line break within `part_bytes`, or between two characters.
    """
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    start, done = 0, 0
    while start < len(texts):
        stop = max(start + 1, int(np.searchsorted(ends, done + part_bytes, side="right")))
        if lengths[start] > part_bytes:
            yield from ([part] for part in _cut(memoryview(texts[start].as_buffer()), part_bytes))
        else:
            yield [Part(text, True) for text in texts[start:stop].to_pylist() if text]
        start, done = stop, int(ends[stop - 1])


def _cut(text: memoryview, part_bytes: int) -> Iterator[Part]:
    start = 0
    while len(text) - start > part_bytes:
        end = start + _cut_at(bytes(text[start : start + part_bytes + 1]))
        yield Part(str(text[start:end], "utf-8"), False)
        start = end
    yield Part(str(text[start:], "utf-8"), True)


def _cut_at(window: bytes) -> int:
    """Returns where to cut UTF-8 that goes on behind `window`: above 0, and below its length."""
    blank = max(window.rfind(b" "), window.rfind(b"\n"))
    if blank > 0:
        return blank  # many tokenizers join a blank to the word after it
    end = len(window) - 1
    while window[end] & 0xC0 == 0x80:  # within a character
        end -= 1
    return end


# --- Rows of tokens.


NO_TEXT = "no text, so no document"
TOKENS_COLUMN = "tokens"
SEGMENTS_COLUMN = SEGMENTS
_ROWS_IN_PACK = 64
_TOKENS_AT_ONCE = 1 << 20  # tokens in a batch of rows, which is copied many times on its way to a shard

PACKINGS = ("packed", "document")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenRows:
    """Rows of `length` tokens from `column` of `source`; its other columns are left out."""

    source: Source
    tokenizer: Tokenizer
    column: str
    length: int
    packing: Literal["packed", "document"] = "packed"
    part_bytes: int = TEXT_PART_BYTES
    most_tokens: int = 1 << 22  # tokens that are held for a pack: 16 MiB, and some copies

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return self.source.input_splits(inputs)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        waiting = _Waiting()
        lines = 0
        for raw in self.source.read(input_split):
            lines = max(lines, raw.lines)
            texts, rejected = self.texts(raw, input_split)
            # The doubtful rows are among those that are reported.
            reported = tuple(raw.reported(rejected))
            left_out = tuple(row for row in reported if not row.is_kept)
            doubtful = (*raw.doubtful, *_without_text(raw, texts, rejected))
            for rows in self._raw_rows(input_split, _Waiting(), rejected=left_out):
                yield dataclasses.replace(rows, doubtful=doubtful)
            places = iter(_places(raw, texts))
            for tokens, is_last in self._encoded(texts):
                if not waiting.is_open:
                    waiting.places.append(next(places))
                waiting.add(tokens, is_last=is_last, most=self._most_of_a_document)
                if self._is_full(waiting):
                    yield from self._raw_rows(input_split, waiting)
                    waiting = waiting.next_pack()
                elif self._can_be_cut(waiting):
                    tail = waiting.split_off_tail(self.length)
                    yield from self._raw_rows(input_split, waiting)
                    waiting = waiting.rest_of_pack(tail)
        yield from (dataclasses.replace(rows, lines=lines) for rows in self._raw_rows(input_split, waiting))

    @property
    def _most_of_a_document(self) -> int | None:
        return self.length if self.packing == "document" else None

    def _is_full(self, waiting: "_Waiting") -> bool:
        return not waiting.is_open and (
            bool(waiting.pack)  # some of its rows were sent already: the pack ends with the long document
            or len(waiting.documents) * self.length >= self.most_tokens
            or (self.packing == "packed" and waiting.tokens >= _ROWS_IN_PACK * self.length)
        )

    def _can_be_cut(self, waiting: "_Waiting") -> bool:
        is_long = waiting.is_open and len(waiting.documents[-1]) >= self.length
        return is_long and self.packing == "packed" and waiting.tokens >= self.most_tokens

    def texts(self, raw: RawRows, input_split: InputSplit) -> tuple[pa.StringArray, list[Rejection]]:
        """Returns the texts of `raw`, null where there is none but blanks, and the rows that are not UTF-8;
        raises InputError where the column is not there.
        """
        if self.column not in raw.columns.schema.names and not raw.sparse:
            raise InputError(
                f"input {input_split.paths[0]}",
                received=f"columns {', '.join(raw.columns.schema.names)}",
                expected=f"a column '{self.column}' with the text to tokenise",
                action="Name it with --text_column.",
            )
        problems = Problems()
        cells = raw.column(self.column)
        texts = decode(cells, problems)
        if self.column not in raw.columns.schema.names:  # no row of this batch names it
            problems.add(range(len(cells)), f"no '{self.column}', which holds the text (--text_column)")
        rejected = []
        for row, reason in problems.items():
            origin, value = raw.origin(row), excerpt(cells[row].as_py())
            rejected.append(
                Rejection(source=origin.file, row=origin.row, column=self.column, reason=reason, raw=value)
            )
        # A null may lie over the bytes that were not UTF-8, which Arrow's functions of text refuse.
        return pc.if_else(pc.utf8_is_space(texts.fill_null("")), None, texts), rejected

    def _encoded(self, texts: pa.StringArray) -> Iterator[tuple[np.ndarray, bool]]:
        """Yields tokens, int32, of each text or part of a long one, and whether the text ends with them."""
        end = [] if self.tokenizer.end is None else [self.tokenizer.end]
        for run in text_runs(texts, part_bytes=self.part_bytes):
            for part, tokens in zip(run, self.tokenizer.encode([part.text for part in run]), strict=True):
                yield np.append(tokens, np.array(end, np.int32)) if part.is_last else tokens, part.is_last

    def _raw_rows(
        self, input_split: InputSplit, waiting: "_Waiting", *, rejected: tuple[Rejection, ...] = ()
    ) -> Iterator[RawRows]:
        rows = (packed if self.packing == "packed" else one_a_row)(waiting.documents, self.length)
        if self.packing == "packed" and not waiting.pack:
            waiting.pack = hashlib.blake2b(rows.tokens.tobytes(), digest_size=16).digest()
        if waiting.continues and len(rows.begun):
            rows.begun[0] -= 1  # the first of these documents began in the rows before
        places = np.array(waiting.places, np.int64).reshape(-1, 2)
        are_cut = np.array(waiting.sizes, np.int64) > self.length
        for part in rows.parts(max(1, _TOKENS_AT_ONCE // self.length)):
            files, numbers = places[part.first].T
            yield RawRows(
                columns=self._columns(part),
                sources=input_split.name
                if len(input_split.paths) == 1
                else [input_split.file_names[file] for file in files],
                numbers=numbers if numbers.any() else None,
                files=files,
                ids=pa.array([row.tobytes() for row in part.tokens], pa.binary()),
                groups=pa.array([waiting.pack] * len(part.tokens), pa.binary()) if waiting.pack else None,
                counts={
                    "documents": part.begun,
                    "tokens": np.count_nonzero(part.segments, axis=1),
                    "places": np.full(len(part.tokens), self.length),
                    **({CUT: are_cut[part.first]} if self.packing == "document" else {}),
                },
                rejected=rejected,
            )

    def _columns(self, rows: PackedRows) -> pa.RecordBatch:
        named = {TOKENS_COLUMN: rows.tokens, SEGMENTS_COLUMN: rows.segments}
        return pa.record_batch(
            {
                name: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), self.length)
                for name, values in named.items()
            }
        )


def remarks_of(source: Source) -> Sequence[str]:
    """Returns what the tokenizer's file asks for and does not get; nothing where no tokens are made."""
    return source.tokenizer.remarks if isinstance(source, TokenRows) else ()


def _without_text(raw: RawRows, texts: pa.StringArray, rejected: Sequence[Rejection]) -> Iterator[Rejection]:
    """Yields the rows that give no document: their text is missing, empty or blank."""
    if raw.numbers is None:
        return
    wrong = {(each.source, each.row) for each in rejected}
    for row in np.flatnonzero(_sizes(texts) == 0).tolist():
        origin = raw.origin(row)
        if (origin.file, origin.row) not in wrong:
            yield Rejection(source=origin.file, row=origin.row, reason=NO_TEXT, is_kept=True)


def _sizes(texts: pa.StringArray) -> np.ndarray:
    return pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False)


def _places(raw: RawRows, texts: pa.StringArray) -> Iterator[tuple[int, int]]:
    """Yields file and row of each text that has characters; 0 where a file is one row."""
    there = np.flatnonzero(_sizes(texts))
    files = np.zeros(len(texts), np.int64) if raw.files is None else raw.files
    numbers = np.zeros(len(texts), np.int64) if raw.numbers is None else raw.numbers
    return zip(files[there].tolist(), numbers[there].tolist(), strict=True)


class _Waiting:
    """Documents that wait for the rows of their pack; the last one may be `open`: more of it follows.

    `places` holds the file and row of each document, `sizes` all its tokens, kept or not. `pack` is the id of
    their pack; if the pack has rows already, the first document `continues` it.
    """

    def __init__(
        self, *, pack: bytes = b"", tail: np.ndarray | None = None, places: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.documents: list[np.ndarray] = [] if tail is None else [tail]
        self.is_open = self.continues = tail is not None
        self.tokens = sum(map(len, self.documents))
        self.sizes = [*map(len, self.documents)]
        self.places = list(places)
        self.pack = pack

    def add(self, tokens: np.ndarray, *, is_last: bool, most: int | None) -> None:
        """Adds a document or, where the last one is open, more of it; keeps up to `most` tokens of each."""
        so_far = [self.documents.pop()] if self.is_open else []
        self.sizes.append(len(tokens) + (self.sizes.pop() if so_far else 0))
        before = sum(map(len, so_far))
        document = np.concatenate([*so_far, tokens])[:most] if so_far else tokens[:most]
        self.documents.append(document)
        self.tokens += len(document) - before
        self.is_open = not is_last

    def next_pack(self) -> "_Waiting":
        return _Waiting()

    def split_off_tail(self, length: int) -> np.ndarray:
        """Cuts the open document to whole rows of `length`; returns the rest."""
        document = self.documents[-1]
        keep = max(0, len(document) - self.tokens % length)
        self.documents[-1] = document[:keep]
        return document[keep:]

    def rest_of_pack(self, tail: np.ndarray) -> "_Waiting":
        return _Waiting(pack=self.pack, tail=tail, places=self.places[-1:])

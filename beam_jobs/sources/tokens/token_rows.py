"""The text column of any source as rows of tokens: `tokens` and `segments`, each of one length.

The documents of a piece come in the order of the file, so what is packed together depends on the piece alone,
not on the workers or on other files. A *pack* is a run of documents that fills at least `_ROWS_IN_PACK` rows.
All of its rows go to one split, so no document is cut between train and test. On average, less than 1 token
in 2·`_ROWS_IN_PACK` is padding. Of a document of hundreds of MiB, rows leave before its end is read.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.problems import Problems, decode
from beam_jobs.sources.pieces.rejections import Rejection, shown
from beam_jobs.sources.pieces.source import Input, Piece, RawRows, Source
from beam_jobs.sources.tokens import text_parts
from beam_jobs.sources.tokens.packing import PackedRows, one_a_row, packed
from beam_jobs.sources.tokens.tokenizers import Tokenizer
from pipeline.data.errors import InputError

TOKENS_COLUMN = "tokens"
SEGMENTS_COLUMN = "segments"
_ROWS_IN_PACK = 64
_TOKENS_AT_ONCE = 1 << 20  # leave together: on their way to a shard they are copied many times

PACKINGS = ("packed", "document")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenRows:
    """Rows of `length` tokens from `column` of `source`; its other columns are left out."""

    source: Source
    tokenizer: Tokenizer
    column: str
    length: int
    packing: Literal["packed", "document"] = "packed"
    part_bytes: int = text_parts.PART_BYTES
    most_tokens: int = 1 << 22  # that wait for their rows: 16 MiB, and some copies

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return self.source.pieces(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        waiting = _Waiting()
        lines = 0
        for raw in self.source.read(piece):
            lines = max(lines, raw.lines)
            texts, rejected = self._texts(raw, piece)
            yield from self._raw_rows(piece, _Waiting(), rejected=(*raw.rejected, *rejected))
            places = iter(_places(raw, texts))
            for tokens, is_last in self._encoded(texts):
                if not waiting.is_open:
                    waiting.places.append(next(places))
                waiting.add(tokens, is_last=is_last, most=self._most_of_a_document)
                if self._is_full(waiting):
                    yield from self._raw_rows(piece, waiting)
                    waiting = waiting.next_pack()
                elif self._can_be_cut(waiting):
                    tail = waiting.split_off_tail(self.length)
                    yield from self._raw_rows(piece, waiting)
                    waiting = waiting.rest_of_pack(tail)
        yield from (dataclasses.replace(rows, lines=lines) for rows in self._raw_rows(piece, waiting))

    @property
    def _most_of_a_document(self) -> int | None:
        return self.length if self.packing == "document" else None

    def _is_full(self, waiting: "_Waiting") -> bool:
        return not waiting.is_open and (
            bool(waiting.pack)  # rows of it have left: it ends with the long document
            or len(waiting.documents) * self.length >= self.most_tokens
            or (self.packing == "packed" and waiting.tokens >= _ROWS_IN_PACK * self.length)
        )

    def _can_be_cut(self, waiting: "_Waiting") -> bool:
        is_long = waiting.is_open and len(waiting.documents[-1]) >= self.length
        return is_long and self.packing == "packed" and waiting.tokens >= self.most_tokens

    def _texts(self, raw: RawRows, piece: Piece) -> tuple[pa.StringArray, list[Rejection]]:
        if self.column not in raw.columns.schema.names and not raw.sparse:
            raise InputError(
                f"input {piece.paths[0]}",
                received=f"columns {', '.join(raw.columns.schema.names)}",
                expected=f"a column '{self.column}' with the text to tokenise",
                action="Name it with --text_column.",
            )
        problems = Problems()
        cells = raw.column(self.column)
        texts = decode(cells, problems)
        rejected = []
        for row, reason in problems.items():
            origin, value = raw.origin(row), shown(cells[row].as_py())
            rejected.append(
                Rejection(source=origin.file, row=origin.row, column=self.column, reason=reason, raw=value)
            )
        return texts, rejected

    def _encoded(self, texts: pa.StringArray) -> Iterator[tuple[np.ndarray, bool]]:
        """Tokens, int32, of each text or part of a long one, and whether the text ends with them."""
        end = [] if self.tokenizer.end is None else [self.tokenizer.end]
        for run in text_parts.runs(texts, part_bytes=self.part_bytes):
            for part, tokens in zip(run, self.tokenizer.encode([part.text for part in run]), strict=True):
                yield np.append(tokens, np.array(end, np.int32)) if part.is_last else tokens, part.is_last

    def _raw_rows(
        self, piece: Piece, waiting: "_Waiting", *, rejected: tuple[Rejection, ...] = ()
    ) -> Iterator[RawRows]:
        rows = (packed if self.packing == "packed" else one_a_row)(waiting.documents, self.length)
        if self.packing == "packed" and not waiting.pack:
            waiting.pack = hashlib.blake2b(rows.tokens.tobytes(), digest_size=16).digest()
        places = np.array(waiting.places, np.int64).reshape(-1, 2)
        for part in rows.parts(max(1, _TOKENS_AT_ONCE // self.length)):
            files, numbers = places[part.first].T
            yield RawRows(
                columns=self._columns(part),
                sources=piece.name if len(piece.paths) == 1 else [piece.file_names[file] for file in files],
                numbers=numbers if numbers.any() else None,
                files=files,
                ids=pa.array([row.tobytes() for row in part.tokens], pa.binary()),
                groups=pa.array([waiting.pack] * len(part.tokens), pa.binary()) if waiting.pack else None,
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


def _places(raw: RawRows, texts: pa.StringArray) -> Iterator[tuple[int, int]]:
    """File and row, 0 where a file is one row, of each text that has characters."""
    there = np.flatnonzero(pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False))
    files = np.zeros(len(texts), np.int64) if raw.files is None else raw.files
    numbers = np.zeros(len(texts), np.int64) if raw.numbers is None else raw.numbers
    return zip(files[there].tolist(), numbers[there].tolist(), strict=True)


class _Waiting:
    """Documents that wait for the rows of their pack; the last one may be `open`: more of it follows.

    `places` are file and row of each, and `pack` is what names a pack that has rows already.
    """

    def __init__(
        self, *, pack: bytes = b"", tail: np.ndarray | None = None, places: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.documents: list[np.ndarray] = [] if tail is None else [tail]
        self.is_open = tail is not None
        self.tokens = sum(map(len, self.documents))
        self.places = list(places)
        self.pack = pack

    def add(self, tokens: np.ndarray, *, is_last: bool, most: int | None) -> None:
        """Adds a document or, where the last one is open, more of it: up to `most` tokens of each."""
        so_far = [self.documents.pop()] if self.is_open else []
        before = sum(map(len, so_far))
        document = np.concatenate([*so_far, tokens])[:most] if so_far else tokens[:most]
        self.documents.append(document)
        self.tokens += len(document) - before
        self.is_open = not is_last

    def next_pack(self) -> "_Waiting":
        return _Waiting()

    def split_off_tail(self, length: int) -> np.ndarray:
        """Leaves whole rows of `length`: what is cut off the open document."""
        document = self.documents[-1]
        keep = max(0, len(document) - self.tokens % length)
        self.documents[-1] = document[:keep]
        return document[keep:]

    def rest_of_pack(self, tail: np.ndarray) -> "_Waiting":
        return _Waiting(pack=self.pack, tail=tail, places=self.places[-1:])

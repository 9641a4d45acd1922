"""The text column of any source as rows of tokens: `tokens` and `segments`, each of one length.

The documents of a piece come in the order of the file, so what is packed together depends on the piece alone,
not on the workers or on other files. A *pack* is a run of documents that fills at least `_ROWS_IN_PACK` rows.
All of its rows go to one split, so no document is cut between train and test. On average, less than 1 token
in 2·`_ROWS_IN_PACK` is padding.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import pyarrow as pa

from beam_jobs.cells.problems import Problems, decode
from beam_jobs.sources.pieces.rejections import Rejection, shown
from beam_jobs.sources.pieces.source import Input, Piece, RawRows, Source
from beam_jobs.sources.tokens.packing import PackedRows, one_a_row, packed
from beam_jobs.sources.tokens.tokenizers import Tokenizer
from pipeline.data.errors import InputError

TOKENS_COLUMN = "tokens"
SEGMENTS_COLUMN = "segments"
_ROWS_IN_PACK = 64

PACKINGS = ("packed", "document")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenRows:
    """Rows of `length` tokens from `column` of `source`; its other columns are left out."""

    source: Source
    tokenizer: Tokenizer
    column: str
    length: int
    packing: Literal["packed", "document"] = "packed"

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return self.source.pieces(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        waiting: list[np.ndarray] = []
        first = 0  # number of the first document that waits
        for raw in self.source.read(piece):
            documents, rejected = self._documents(raw, piece)
            yield self._raw_rows(piece, [], 0, (*raw.rejected, *rejected))
            for document in documents:
                waiting.append(document)
                if self._is_full(waiting):
                    yield self._raw_rows(piece, waiting, first)
                    first += len(waiting)
                    waiting = []
        yield self._raw_rows(piece, waiting, first)

    def _is_full(self, waiting: list[np.ndarray]) -> bool:
        return len(waiting) * self.length >= 1 << 22 or (
            self.packing == "packed" and sum(map(len, waiting)) >= _ROWS_IN_PACK * self.length
        )

    def _documents(self, raw: RawRows, piece: Piece) -> tuple[list[np.ndarray], list[Rejection]]:
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
                Rejection(source=origin.source, row=origin.row, column=self.column, reason=reason, raw=value)
            )
        end = [] if self.tokenizer.end is None else [self.tokenizer.end]
        encoded = self.tokenizer.encode([text for text in texts.to_pylist() if text])
        return [np.append(document, np.array(end, np.int32)) for document in encoded], rejected

    def _raw_rows(
        self, piece: Piece, documents: list[np.ndarray], first: int, rejected: tuple[Rejection, ...] = ()
    ) -> RawRows:
        rows = (packed if self.packing == "packed" else one_a_row)(documents, self.length)
        names = {TOKENS_COLUMN: rows.tokens, SEGMENTS_COLUMN: rows.segments}
        columns = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), self.length)
            for name, values in names.items()
        }
        return RawRows(
            columns=pa.record_batch(columns),
            sources=piece.name,
            numbers=first + rows.first + 1,
            ids=pa.array([row.tobytes() for row in rows.tokens], pa.binary()),
            groups=self._groups(rows),
            rejected=rejected,
        )

    def _groups(self, rows: PackedRows) -> pa.Array | None:
        if self.packing == "document":
            return None
        pack = hashlib.blake2b(rows.tokens.tobytes(), digest_size=16).digest()
        return pa.array([pack] * len(rows.tokens), pa.binary())

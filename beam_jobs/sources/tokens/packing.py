"""Documents of any length → rows of one length, with the segment that each token belongs to.

For example, the documents [5 6 1] [7 1] [8 9 1] give these rows of 4:
  tokens   5 6 1 7 | 1 8 9 1        a document continues in the next row
  segments 1 1 1 2 | 1 2 2 2        each row numbers its documents from 1; 0 is padding
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from beam_jobs.sources.tokens.tokenizers import PADDING


@dataclasses.dataclass(frozen=True)
class PackedRows:
    """`tokens`, `segments`: int32 [rows, length]; `first`: int32 [rows], the document a row begins in."""

    tokens: np.ndarray
    segments: np.ndarray
    first: np.ndarray

    def parts(self, rows: int) -> Iterator["PackedRows"]:
        """The same rows, at most `rows` at once; one part without rows if there are none."""
        for start in range(0, max(1, len(self.tokens)), rows):
            some = slice(start, start + rows)
            yield PackedRows(self.tokens[some], self.segments[some], self.first[some])


def packed(documents: Sequence[np.ndarray], length: int) -> PackedRows:
    """All `documents`, int32 [tokens] each, one after the other; only the last row is padded."""
    sizes = [len(document) for document in documents]
    total = sum(sizes)
    rows = -(-total // length)
    tokens = np.full(rows * length, PADDING, np.int32)
    document_of = np.full(rows * length, -1, np.int32)
    if rows:
        np.concatenate(documents, out=tokens[:total])
        document_of[:total] = np.repeat(np.arange(len(documents), dtype=np.int32), sizes)
    first = document_of[::length].copy()
    # Documents without tokens must not leave gaps between the numbers.
    rank = np.cumsum(np.array(sizes) > 0, dtype=np.int32)
    segments = rank[document_of].reshape(rows, length)
    segments -= rank[first][:, np.newaxis] - 1
    segments.ravel()[total:] = 0
    return PackedRows(tokens.reshape(rows, length), segments, first)


def one_a_row(documents: Sequence[np.ndarray], length: int) -> PackedRows:
    """Each of `documents`, int32 [tokens], in a row of its own, cut or padded to `length`."""
    tokens = np.full((len(documents), length), PADDING, np.int32)
    segments = np.zeros((len(documents), length), np.int32)
    for row, document in enumerate(documents):
        kept = document[:length]
        tokens[row, : len(kept)] = kept
        segments[row, : len(kept)] = 1
    return PackedRows(tokens, segments, np.arange(len(documents), dtype=np.int32))

"""Rows that were counted from the beginning of a piece → their numbers in the file."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from beam_jobs.sources.pieces.rejections import Rejected
from beam_jobs.sources.pieces.source import Piece


def lines_before(pieces: Sequence[Piece], lines: Mapping[str, int]) -> list[int]:
    """How many lines of its file precede each of `pieces`; `lines` are those of pieces, by their names."""
    so_far = collections.Counter[str]()
    before = [0] * len(pieces)
    for number in sorted(range(len(pieces)), key=lambda number: pieces[number].start):
        path = pieces[number].paths[0]
        before[number] = so_far[path]
        so_far[path] += lines.get(pieces[number].name, 0)
    return before


def in_files(rejected: Rejected, pieces: Sequence[Piece], lines: Mapping[str, int]) -> Rejected:
    """`rejected`, each row with its file and its number there."""
    told = {
        piece.name: (piece.file_names[0], before)
        for piece, before in zip(pieces, lines_before(pieces, lines), strict=True)
        if piece.start
    }
    listed = []
    for row in rejected.listed:
        file, before = told.get(row.source, (row.source, 0))
        listed.append(dataclasses.replace(row, source=file, row=row.row and row.row + before))
    return dataclasses.replace(rejected, listed=tuple(sorted(listed, key=lambda row: row.order)))

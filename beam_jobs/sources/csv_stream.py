"""The bytes of one piece of a CSV file, as Arrow's reader takes them."""

import codecs

import pyarrow as pa

from beam_jobs.sources import files
from beam_jobs.sources.source import Piece


class NotUtf8Error(ValueError):
    """A byte of the piece is no UTF-8."""


class CsvStream:
    """A file to Arrow: a byte order mark is left out and, unless `any_bytes`, what is not UTF-8 is an error.

    Arrow can hand over a row with the wrong number of cells only as text. So a file that is not UTF-8 is read
    as Latin-1, in which every byte is a character, from which the bytes come back.
    """

    def __init__(self, piece: Piece, *, any_bytes: bool) -> None:
        [path] = piece.paths
        self.closed = False
        self._stream = files.open_stream(path) if piece.end is None else files.open_seekable(path)
        self._left = None if piece.end is None else piece.end - piece.start
        if piece.start:
            self._stream.seek(piece.start)
        self._is_first = piece.start == 0
        self._decoder = None if any_bytes else codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int) -> bytes:
        block = self._stream.read(size if self._left is None else min(size, self._left))
        if self._left is not None:
            self._left -= len(block)
        self._check(block)
        if self._is_first:
            self._is_first = False
            # What follows a mark that is alone in its block is still to come.
            block = block.removeprefix(codecs.BOM_UTF8) or self._stream.read(size)
        return block

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def _check(self, block: bytes) -> None:
        if self._decoder is None or (block.isascii() and not self._decoder.getstate()[0]):
            return
        try:
            self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            raise NotUtf8Error from None


def bytes_of_latin_1(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The cells' own bytes, where the file was read as Latin-1."""
    columns = [
        pa.array([cell.decode().encode("latin-1") for cell in column.to_pylist()], pa.binary())
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)

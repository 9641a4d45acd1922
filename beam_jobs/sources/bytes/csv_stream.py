"""The bytes of one piece of a CSV file, as Arrow's reader takes them."""

import codecs

import pyarrow as pa

from beam_jobs.sources.bytes import encodings
from beam_jobs.sources.bytes.row_lines import RowLines
from beam_jobs.sources.pieces.byte_stream import ByteStream
from beam_jobs.sources.pieces.source import Piece


class NotUtf8Error(ValueError):
    """The piece is not UTF-8."""


class CsvStream:
    """A file for Arrow, as UTF-8 without the byte order mark. Raises NotUtf8Error, unless `any_bytes` may be.

    Arrow gives a row with the wrong number of cells as text only. So a file that is not UTF-8 is read as
    Latin-1, in which every byte is a character, and `bytes_of_latin_1` gives the bytes back.
    """

    def __init__(
        self, piece: Piece, *, any_bytes: bool, encoding: str = encodings.UTF_8, lines: RowLines | None = None
    ) -> None:
        """`lines` is told what was read."""
        [path] = piece.paths
        self.closed = self._has_ended = False
        self._stream: ByteStream | encodings.Utf8Stream = ByteStream(path, start=piece.start, end=piece.end)
        if encoding != encodings.UTF_8:
            self._stream = encodings.Utf8Stream(self._stream, encoding)
        self._is_first = piece.start == 0
        self._lines = lines
        self._decoder = None if any_bytes else codecs.getincrementaldecoder("utf-8")()

    def read(self, size: int) -> bytes:
        if self._has_ended:
            return b""
        block = self._stream.read(size)
        self._check(block)
        if self._is_first:
            self._is_first = False
            # A mark may be alone in its block; an empty block would say that the file ends.
            block = block.removeprefix(codecs.BOM_UTF8) or self._stream.read(size)
        if self._lines:
            self._lines.add(block)
        return block

    def end(self) -> None:
        """Nothing more is read: as if the piece ended here."""
        self._has_ended = True

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
    """Cells [rows] of a file that was read as Latin-1 → their bytes, binary [rows]."""
    columns = [
        pa.array([cell.decode().encode("latin-1") for cell in column.to_pylist()], pa.binary())
        for column in batch.columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)

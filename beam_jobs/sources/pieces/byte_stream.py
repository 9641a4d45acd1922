"""The bytes of a file of text, or of a range of it, decompressed; what cannot be read names the file."""

import types
from typing import Self

from beam_jobs.sources.pieces import files
from pipeline.data.errors import InputError

_COMPRESSED = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}  # by their first bytes


class ByteStream:
    """A file, decompressed if its name says so; or the bytes [start, end) of it, as they are stored.

    Raises InputError where the file does not decompress, or is compressed and its name does not say so.
    """

    def __init__(self, path: str, *, start: int = 0, end: int | None = None) -> None:
        self._path = path
        self._left = None if end is None else end - start
        self._is_first = start == 0
        self._stream = files.open_stream(path) if end is None else files.open_seekable(path)
        if start:
            self._stream.seek(start)

    def read(self, size: int | None = None) -> bytes:
        if self._left is not None:
            size = self._left if size is None else min(size, self._left)
        try:
            block = self._stream.read(size)
        except OSError as error:
            received = f"bytes that do not read ({error})"
            raise self._error(received, "a whole file, compressed as its name says") from None
        if self._left is not None:
            self._left -= len(block)
        if self._is_first:
            self._is_first = False
            self._check_plain(block)
        return block

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, traceback: types.TracebackType | None
    ) -> None:
        self.close()

    def _check_plain(self, block: bytes) -> None:
        for start, ending in _COMPRESSED.items():
            if block.startswith(start):
                raise self._error("compressed bytes", f"text, or a name that ends in {ending}")

    def _error(self, received: str, expected: str) -> InputError:
        return InputError(
            f"input {self._path}",
            received=received,
            expected=expected,
            action="Copy the file again or correct its name, or leave it out.",
        )

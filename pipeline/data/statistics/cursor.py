"""The simple values of a binary file, written as bytes, and read back with a look at what is left of them.

A whole number from 0 on is a varint, as protocol buffers have it; a signed one of any size is its length as a
varint, and so many bytes, little-endian. A text is its length in bytes, and UTF-8.
"""

import numpy as np

_VARINT_BYTES = 10  # of numbers below 2^64, at most


class DamagedError(ValueError):
    """The bytes are not what was written."""


def varint(number: int) -> bytes:
    """A whole number from 0 to 2^64 - 1."""
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*content, number))


def signed(number: int) -> bytes:
    """A whole number of any size and sign."""
    size = (number.bit_length() + 8) // 8
    return varint(size) + number.to_bytes(size, "little", signed=True)


def text(value: str) -> bytes:
    """A text of any length."""
    content = value.encode()
    return varint(len(content)) + content


class Cursor:
    """Reads values one after the other; raises DamagedError where the bytes are too few, or no such value."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > len(self._content) - self._at:
            raise DamagedError(f"{size:,} bytes from byte {self._at:,} on, beyond the end")
        self._at += size
        return self._content[self._at - size : self._at]

    def varint(self, most: int = (1 << 64) - 1) -> int:
        """A number from 0 to `most`."""
        number = 0
        for place in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        if byte >= 0x80 or number > most:
            raise DamagedError(f"a number beyond {most:,} before byte {self._at:,}")
        return number

    def signed(self) -> int:
        """A number of any size and sign."""
        return int.from_bytes(self.take(self.varint()), "little", signed=True)

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode()
        except UnicodeDecodeError:
            raise DamagedError(f"a text that is not UTF-8 before byte {self._at:,}") from None

    def numbers(self, dtype: str, count: int) -> np.ndarray:
        """`count` numbers of a little-endian NumPy dtype."""
        return np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype)

    def end(self) -> None:
        """Raises DamagedError unless all is read."""
        if self._at != len(self._content):
            raise DamagedError(f"{len(self._content) - self._at:,} bytes too many")

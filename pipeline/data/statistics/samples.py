"""Samples of numbers as bytes: the order hashes of their rows, once for all features, and the values of each
feature.

A sample is of the rows with the smallest order hashes that have a value. So features without missing values
have samples of the same rows, and a table of the hashes serves all of them:

  varint    the number n of hashes
  bytes     n differences of the ascending hashes, packed: a byte with their bits, then these

A sample of m numbers, m being known, is in the order of hashes, and of values where hashes are equal:

  byte      0: it has the first hashes of the table, each `varint` times, the last one perhaps fewer
            1: packed, for each hash of the table, how many numbers are of it
  byte      0: float64 [m]; 1: float32 [m]
            2: integers: the lowest as `signed`, then the packed differences to it
            3: few distinct values: their number as a varint, these as 0, 1 or 2, and m packed places

The shortest of these is taken, the first of equally short ones. So equal samples give equal bytes.
"""

from collections.abc import Iterable

import numpy as np

from pipeline.base import bits as bits_lib
from pipeline.base.errors import DamagedError
from pipeline.data.dataset.tfrecord import VARINT_BYTES, varint

# --- Numbers and texts as bytes. A whole number from 0 on is a varint, as protocol buffers have it.


def signed(number: int) -> bytes:
    """A whole number of any size and sign: its length in bytes as a varint, then these bytes,
    little-endian.
    """
    size = (number.bit_length() + 8) // 8
    return varint(size) + number.to_bytes(size, "little", signed=True)


def text(value: str) -> bytes:
    """A text of any length: the number of its bytes in UTF-8, then these bytes."""
    content = value.encode()
    return varint(len(content)) + content


class Cursor:
    """Reads values one after the other; raises DamagedError where bytes are missing or do not hold a valid
    value.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._content) - self._at:
            raise DamagedError(f"{size:,} bytes from byte {self._at:,} on, beyond the end")
        self._at += size
        return self._content[self._at - size : self._at]

    def varint(self, most: int = (1 << 64) - 1) -> int:
        number = 0
        for place in range(VARINT_BYTES):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        if byte >= 0x80 or number > most:
            raise DamagedError(f"a number beyond {most:,} before byte {self._at:,}")
        return number

    def signed(self) -> int:
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


SAMPLE = np.dtype([("order", np.uint64), ("value", np.float64)])

_ALL_ALIKE, _COUNTED = 0, 1
_FLOAT64, _FLOAT32, _INTEGERS, _DISTINCT = range(4)
_WHOLE = 2.0**53  # integers up to here are exact in float64


def table_of(samples: Iterable[np.ndarray]) -> np.ndarray:
    """The order hashes of some samples, each of dtype SAMPLE: uint64 [n], ascending, each once."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *(sample["order"] for sample in samples)]))


def table_bytes(table: np.ndarray) -> bytes:
    return varint(len(table)) + _packed(np.diff(table, prepend=table[:1] * 0))


def read_table(cursor: Cursor, most: int) -> np.ndarray:
    """The inverse of `table_bytes`; raises DamagedError for more than `most` hashes."""
    steps = _unpacked(cursor, cursor.varint(most))
    table = np.cumsum(steps, dtype=np.uint64)
    if (table[1:] <= table[:-1]).any():
        raise DamagedError("order hashes that do not rise")
    return table


def sample_bytes(sample: np.ndarray, table: np.ndarray) -> bytes:
    """A sample of dtype SAMPLE, [m], whose order hashes are in the table."""
    sample = sample[np.lexsort((sample["value"], sample["order"]))]
    return _places(sample["order"], table) + _values(np.ascontiguousarray(sample["value"]))


def read_sample(cursor: Cursor, size: int, table: np.ndarray) -> np.ndarray:
    """The inverse of `sample_bytes` for a sample of `size` numbers; raises DamagedError."""
    sample = np.empty(size, SAMPLE)
    sample["order"] = _read_places(cursor, size, table)
    sample["value"] = _read_values(cursor, size, known=(_FLOAT64, _FLOAT32, _INTEGERS, _DISTINCT))
    if not np.isfinite(sample["value"]).all():
        raise DamagedError("a sampled number that is not finite")
    return sample


def _places(order: np.ndarray, table: np.ndarray) -> bytes:
    counts = np.bincount(np.searchsorted(table, order), minlength=len(table))
    each = max(1, int(counts[0])) if len(counts) else 1
    if len(order) <= each * len(table) and np.array_equal(order, _alike(table, each, len(order))):
        return bytes([_ALL_ALIKE]) + varint(each)
    return bytes([_COUNTED]) + _packed(counts.astype(np.uint64))


def _alike(table: np.ndarray, each: int, size: int) -> np.ndarray:
    """The first `size` of the hashes, if each one is repeated `each` times: uint64 [size]."""
    return np.repeat(table[: -(-size // each)], each)[:size]


def _read_places(cursor: Cursor, size: int, table: np.ndarray) -> np.ndarray:
    how = cursor.varint(_COUNTED)
    if how == _ALL_ALIKE:
        each = cursor.varint()
        if not 1 <= each <= max(1, size) or -(-size // each) > len(table):
            raise DamagedError(f"{size:,} sampled numbers of {len(table):,} rows")
        return _alike(table, each, size)
    counts = _unpacked(cursor, len(table))
    if (counts > size).any() or int(counts.sum()) != size:
        raise DamagedError(f"a sample that does not have {size:,} numbers")
    return np.repeat(table, counts.astype(np.int64))


def _values(values: np.ndarray) -> bytes:
    plain = _plain(values)
    distinct, places = np.unique(values, return_inverse=True)
    if len(distinct) > len(values) // 2:
        return plain
    few = bytes([_DISTINCT]) + varint(len(distinct)) + _plain(distinct) + _packed(places.astype(np.uint64))
    return min(plain, few, key=len)


def _plain(values: np.ndarray) -> bytes:
    """float64 [m] as floats or integers."""
    ways = [bytes([_FLOAT64]) + values.astype("<f8").tobytes()]
    with np.errstate(over="ignore"):
        narrow = values.astype("<f4")
    if np.array_equal(narrow.astype(np.float64), values):
        ways.append(bytes([_FLOAT32]) + narrow.tobytes())
    if len(values) and (np.abs(values) <= _WHOLE).all() and (values == np.floor(values)).all():
        whole = values.astype(np.int64)
        lowest = int(whole.min())
        ways.append(bytes([_INTEGERS]) + signed(lowest) + _packed((whole - lowest).astype(np.uint64)))
    return min(ways, key=len)


def _read_values(cursor: Cursor, size: int, *, known: tuple[int, ...]) -> np.ndarray:
    how = cursor.varint()
    if how not in known:
        raise DamagedError(f"numbers of the unknown form {how}")
    if how == _FLOAT64:
        return cursor.numbers("<f8", size)
    if how == _FLOAT32:
        return cursor.numbers("<f4", size).astype(np.float64)
    if how == _INTEGERS:
        lowest, steps = cursor.signed(), _unpacked(cursor, size)
        if abs(lowest) > _WHOLE or (steps > 2 * _WHOLE).any():
            raise DamagedError("integers that float64 does not hold")
        return (steps.astype(np.int64) + lowest).astype(np.float64)
    distinct = _read_values(cursor, cursor.varint(size), known=(_FLOAT64, _FLOAT32, _INTEGERS))
    places = _unpacked(cursor, size)
    if (places >= len(distinct)).any():
        raise DamagedError("a number that is none of the distinct ones")
    return distinct[places.astype(np.int64)]


def _packed(numbers: np.ndarray) -> bytes:
    """Packs uint64 [n]: a byte with the number of bits of the largest, then each number in that many bits."""
    bits = int(numbers.max()).bit_length() if len(numbers) else 0
    return bytes([bits]) + bits_lib.packed(numbers, bits)


def _unpacked(cursor: Cursor, count: int) -> np.ndarray:
    bits = cursor.varint(64)
    return bits_lib.unpacked(cursor.take(bits_lib.packed_bytes(bits, count)), bits, count)


# --- The numbers that a column repeats, from a sample.

# The fewest times that a value must occur in the sample: then its share of the rows is known to within a
# third.
_FEWEST = 10
_MOST_VALUES = 64


def repeated_numbers(sample: np.ndarray) -> tuple[float, ...]:
    """The numbers that occur at least 10 times, ascending: at most the 64 most frequent; the value breaks
    ties.

    A model can learn what such a number itself means: 99999 for "unknown", 40 hours for "full time".

    Args:
      sample: float64 [n].
    """
    values, counts = np.unique(sample[np.isfinite(sample)], return_counts=True)
    by_count = np.lexsort((values, -counts))[:_MOST_VALUES]
    return tuple(np.sort(values[by_count[counts[by_count] >= _FEWEST]]).tolist())

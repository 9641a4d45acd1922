"""Samples of numbers as bytes: the order hashes of their rows once for all features, and each one's values.

A sample is of the rows with the smallest order hashes that have a value. So features without missing values
have samples of the same rows, and a table of the hashes serves all of them:

  varint    the number n of hashes
  bytes     n differences of the ascending hashes, packed: a byte with their bits, then these

A sample of m numbers, m being known, is in the order of hashes, and of values where hashes are equal:

  byte      0: it has the first hashes of the table, each `varint` times, the last one perhaps fewer
            1: packed, for each hash of the table, how many numbers are of it
  byte      0: float64 [m]; 1: float32 [m]
            2: integers: the lowest as `signed`, then the packed differences to it
            3: of few distinct values: their number as a varint, these as 0, 1 or 2, and m packed places

The shortest of these is taken, the first of equally short ones. So equal samples give equal bytes.
"""

from collections.abc import Iterable

import numpy as np

from pipeline.data import bit_packing
from pipeline.data.statistics.cursor import Cursor, DamagedError, signed, varint

SAMPLE = np.dtype([("order", np.uint64), ("value", np.float64)])

_ALL_ALIKE, _COUNTED = 0, 1
_FLOAT64, _FLOAT32, _INTEGERS, _DISTINCT = range(4)
_WHOLE = 2.0**53  # integers up to here are exact in float64


def table_of(samples: Iterable[np.ndarray]) -> np.ndarray:
    """The order hashes of some samples, each of dtype SAMPLE: uint64 [n], ascending, each once."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *(sample["order"] for sample in samples)]))


def table_bytes(table: np.ndarray) -> bytes:
    """A table of order hashes, uint64 [n], ascending."""
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
    """The first `size` of the hashes, each being there `each` times: uint64 [size]."""
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
        raise DamagedError(f"another number of sampled numbers than {size:,}")
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
    """A byte with the bits of the largest of uint64 [n], then all of them in so many bits."""
    bits = int(numbers.max()).bit_length() if len(numbers) else 0
    return bytes([bits]) + bit_packing.packed(numbers, bits)


def _unpacked(cursor: Cursor, count: int) -> np.ndarray:
    bits = cursor.varint(64)
    return bit_packing.unpacked(cursor.take(bit_packing.packed_bytes(bits, count)), bits, count)

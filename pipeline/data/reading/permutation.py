"""The permutations of the stream in NumPy, for use without TensorFlow; `order.py` computes them in a graph.

Both calculate with the words and seeds of this file, and give the same numbers.
"""

import dataclasses
import hashlib

import numpy as np

# The most frequent step from a row to the next, among 2**20 rows, occurs 4,084 times with 3 turns, 36 times
# with 4, and 9 times by chance.
TURNS = 4
_KEYS = TURNS + 2

# These stand in place of a window's number in the key of a permutation.
WHOLE_EPOCH = -1
OF_A_MIXTURE = -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The integer types for the calculation, by name, and the constants that hash them."""

    dtype: str
    unsigned: str  # the unsigned type with as many bits
    bits: int
    most_rows: int  # up to here, sums of two rows, and products of a half and a fraction, fit in the dtype
    fraction_bits: int  # bits of a hash that are used
    shifts: tuple[int, int]
    multipliers: tuple[int, int]  # multipliers of MurmurHash3's finalizers (Appleby, public domain)
    stride: int  # the number of all values, divided by the golden ratio: no small multiple is a small number

    def seeds(self, seed: int) -> list[int]:
        """Signed numbers, one for each key of a permutation."""
        return [_integer(f"{seed}/{number}", self.bits // 8) for number in range(_KEYS)]


SHORT = Words(
    dtype="int32",
    unsigned="uint32",
    bits=32,
    most_rows=1 << 30,
    fraction_bits=15,
    shifts=(15, 13),
    multipliers=(0x85EBCA6B - (1 << 32), 0xC2B2AE35 - (1 << 32)),
    stride=0x9E3779B1 - (1 << 32),
)
LONG = Words(
    dtype="int64",
    unsigned="uint64",
    bits=64,
    most_rows=1 << 62,
    fraction_bits=31,
    shifts=(33, 29),
    multipliers=(0xFF51AFD7ED558CCD - (1 << 64), 0xC4CEB9FE1A85EC53 - (1 << 64)),
    stride=0x9E3779B97F4A7C15 - (1 << 64),
)


def words_for(rows: int) -> Words:
    """The words for a permutation of a whole epoch of `rows` rows."""
    return LONG if rows > SHORT.most_rows else SHORT


def _integer(name: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=size).digest(), "little", signed=True)


class Permutation:
    """Permutes [0, rows) as `order.Permutation` does, in both directions.

    Args:
      rows: a number; or int64 [n], the number of rows in each element's range, then at most 2**30.
    """

    def __init__(self, rows: int | np.ndarray, *, seed: int) -> None:
        self._words = words_for(rows) if isinstance(rows, int) else SHORT
        self._dtype = np.dtype(self._words.dtype)
        self._rows = np.atleast_1d(np.asarray(rows, self._dtype))
        self._sizes = _halves(self._rows)
        self._seeds = np.array(self._words.seeds(seed), self._dtype)

    def __call__(
        self, indices: np.ndarray, epochs: np.ndarray | int, windows: np.ndarray | int = 0
    ) -> np.ndarray:
        """Indices [n] in [0, rows) → the rows there, int64 [n].

        Args:
          epochs: a number or int64 [n]; each has a permutation of its own.
          windows: the same.
        """
        keys = self._keys(epochs, windows)
        turned = self._turned(np.asarray(indices, self._dtype), keys[TURNS])
        halves = list(self._pair(turned))
        for turn in range(TURNS):
            other, mine = turn % 2, 1 - turn % 2
            shift = self._shift(halves[other], keys[turn], self._sizes[mine])
            halves[mine] = _wrapped(halves[mine] + shift, self._sizes[mine])
        return self._turned(self._joined(halves, turned), keys[TURNS + 1]).astype(np.int64)

    def inverse(
        self, rows: np.ndarray, epochs: np.ndarray | int, windows: np.ndarray | int = 0
    ) -> np.ndarray:
        """The indices, int64 [n], at which a call gives these rows [n]."""
        keys = self._keys(epochs, windows)
        turned = self._turned_back(np.asarray(rows, self._dtype), keys[TURNS + 1])
        halves = list(self._pair(turned))
        for turn in reversed(range(TURNS)):
            other, mine = turn % 2, 1 - turn % 2
            shift = self._shift(halves[other], keys[turn], self._sizes[mine])
            halves[mine] = _wrapped(halves[mine] - shift + self._sizes[mine], self._sizes[mine])
        return self._turned_back(self._joined(halves, turned), keys[TURNS]).astype(np.int64)

    def _keys(self, epochs: np.ndarray | int, windows: np.ndarray | int) -> list[np.ndarray]:
        """The key of each turn, [n] or [1] each."""
        words = self._words
        of_epoch = np.atleast_1d(epochs).astype(self._dtype) * self._dtype.type(words.multipliers[1])
        number = of_epoch + np.atleast_1d(windows).astype(self._dtype) * self._dtype.type(words.stride)
        return list(self._mixed(number + self._seeds[:, None]))

    def _turned(self, rows: np.ndarray, key: np.ndarray) -> np.ndarray:
        return _wrapped(rows + (key & np.iinfo(self._dtype).max) % self._rows, self._rows)

    def _turned_back(self, rows: np.ndarray, key: np.ndarray) -> np.ndarray:
        return _wrapped(rows - (key & np.iinfo(self._dtype).max) % self._rows + self._rows, self._rows)

    def _pair(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.divmod(rows, self._sizes[1])

    def _joined(self, halves: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
        """The rows of these pairs; the few rows that make no whole pair stay where they are."""
        is_of_pair = rows < self._sizes[0] * self._sizes[1]
        return np.where(is_of_pair, halves[0] * self._sizes[1] + halves[1], rows)

    def _shift(self, half: np.ndarray, key: np.ndarray, size: np.ndarray) -> np.ndarray:
        """A hash of one half, in [0, size), by which the other is shifted."""
        words = self._words
        hashes = self._mixed(half * self._dtype.type(words.multipliers[0]) + key)
        twice = (hashes + hashes).view(words.unsigned)  # doubling pushes the sign out
        upper = (twice >> np.asarray(words.bits - words.fraction_bits, words.unsigned)).view(self._dtype)
        return upper * size >> words.fraction_bits

    def _mixed(self, values: np.ndarray) -> np.ndarray:
        for shift, multiplier in zip(self._words.shifts, self._words.multipliers, strict=True):
            values = (values ^ values >> shift) * self._dtype.type(multiplier)
        return values


def _wrapped(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Values below twice the size, modulo the size."""
    return values - np.where(values >= size, size, 0)


def _halves(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) of each number, both near its root, with a * b at most the number, and as close to it as
    possible.
    """
    distinct, places = np.unique(rows, return_inverse=True)
    firsts = np.array([_half(int(each)) for each in distinct], rows.dtype)[places]
    return firsts, rows // firsts


def _half(rows: int) -> int:
    root = int(np.sqrt(np.float64(rows)))
    sizes = np.arange(max(1, root - root // 4), root + 1, dtype=np.int64)
    return int(sizes[np.argmin(rows % sizes)])

"""Whether one epoch of a reader holds every example once; standard library and numpy only.

A batch is a tuple of arrays of one first dimension:

  tabular   dense float32 [batch, 13], categories integers [batch, 26], label integers [batch]
  images    pixels [batch, 224, 224, 3], label integers [batch]: every image has its own
  tokens    tokens integers [batch, 513]
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ledger:
    examples: int
    lost: int
    repeated: int
    foreign: int  # of no example of the data

    @property
    def exact(self) -> bool:
        return not (self.lost or self.repeated or self.foreign)


def expected(workload: str, directory: pathlib.Path) -> np.ndarray:
    """int64 [examples], the identity of every example of the data."""
    if workload == "images":
        return np.arange(len(np.load(directory / "offsets.npy", mmap_mode="r")) - 1)
    return _hashes(np.load(directory / "rows.npy", mmap_mode="r"))


def identities(workload: str, batch: Sequence) -> np.ndarray:
    """int64 [batch]."""
    arrays = [np.asarray(array) for array in batch]
    if workload == "images":
        return arrays[1].astype(np.int64)
    if workload == "tokens":
        return _hashes(arrays[0])
    if len(arrays) == 1:  # packed rows
        return _hashes(arrays[0])
    dense, *rest = arrays
    bits = np.ascontiguousarray(dense, np.float32).view(np.int32)
    return _hashes(np.concatenate([bits, *(one.reshape(len(one), -1) for one in rest)], axis=1))


def compare(expected: np.ndarray, seen: np.ndarray) -> Ledger:
    """Compares as multisets: data may hold the same example more than once."""
    names, index = np.unique(np.concatenate([expected, seen]), return_inverse=True)
    wanted = np.bincount(index[: len(expected)], minlength=len(names))
    found = np.bincount(index[len(expected) :], minlength=len(names))
    surplus = np.maximum(found - wanted, 0)
    return Ledger(
        examples=len(seen),
        lost=int(np.maximum(wanted - found, 0).sum()),
        repeated=int(surplus[wanted > 0].sum()),
        foreign=int(surplus[wanted == 0].sum()),
    )


def _hashes(rows: np.ndarray) -> np.ndarray:
    """int64 [rows]: a random odd multiple of each column, summed modulo 2^64."""
    multipliers = np.random.default_rng(0).integers(1 << 62, size=rows.shape[1]) * 2 + 1
    with np.errstate(over="ignore"):
        parts = [part.astype(np.int64) @ multipliers for part in np.array_split(rows, len(rows) // 65536 + 1)]
    return np.concatenate(parts)

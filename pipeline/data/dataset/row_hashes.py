"""Equal rows: hashes of rows, which of them repeat, and which are in two sets of rows.

Hashes have 64 bits. Among n rows of one set and m of another, n·m / 2^64 pairs collide by chance: 0.0005 for
100 million rows in each. Standard library and numpy only.
"""

import dataclasses
import hashlib
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

BYTES = 8  # bytes of a hash
AT_ONCE = 1 << 24  # hashes in memory: 128 MiB, and about twice that to sort them
MIXED = -1  # rows with this hash are in several splits

_SEED = 20261101  # seed of the coefficients: any number, but the same for all rows that are compared
_EXAMPLES = 3  # rows of a leak that are named

# For each split, functions that return the hashes of some of its rows, uint64 [rows], for instance of a
# shard.
Hashes = Mapping[str, Sequence[Callable[[], np.ndarray]]]


def content_hashes(payloads: Iterable[bytes], *, purpose: bytes = b"") -> np.ndarray:
    """Hashes n payloads, uint64 [n]: equal for equal content. Hashes for two purposes are independent."""
    digests = [hashlib.blake2b(payload, digest_size=BYTES, person=purpose).digest() for payload in payloads]
    return np.frombuffer(b"".join(digests), "<u8")


class RowHasher:
    """Hashes rows of `words` 16-bit words, 6 times as fast as `content_hashes` on rows of 160 bytes.

    A hash is the upper halves of two sums over the 32-bit words x of a row, a_0 + a_1·x_1 + a_2·x_2 + …
    modulo 2^64, with coefficients that were drawn once. Two different rows have the same 64 bits with
    probability 2^-64, however similar they are: D. Lemire and O. Kaser, "Strongly universal string hashing is
    fast", The Computer Journal 57 (2014), the family Multilinear.
    """

    def __init__(self, words: int) -> None:
        self._pairs = -(-words // 2)
        draws = np.random.default_rng(_SEED).integers(0, 1 << 64, (self._pairs + 1, 2), np.uint64)
        self._first, self._factors = draws[0], draws[1:]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Hashes rows, uint16 [n, words], to uint64 [n]."""
        filled = np.zeros((len(rows), 2 * self._pairs), "<u2")
        filled[:, : rows.shape[1]] = rows
        sums = filled.view("<u4").astype(np.uint64) @ self._factors + self._first  # (n, 2)
        upper = sums >> np.uint64(32)
        return upper[:, 0] << np.uint64(32) | upper[:, 1]


def look_up(hashes: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each of `hashes` stands in the sorted `known`, int64 [n], and whether it does, bool [n]."""
    if not len(known):
        return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
    position = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return position, known[position] == hashes


# --- Rows of one set that another one has too.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """Distinct hashes of a dataset, sorted; all arrays are [distinct]."""

    hashes: np.ndarray  # uint64
    counts: np.ndarray  # int64
    first: np.ndarray  # int64, index of the first such row, counted through all splits
    split: np.ndarray  # int64, number of the split that they are in, or MIXED


def count_rows(splits: Mapping[str, np.ndarray]) -> Counted:
    """Counts the hashes of each split, uint64 [rows] in `splits`. 100 million rows take under 4 GB."""
    everything = np.concatenate([np.zeros(0, np.uint64), *splits.values()])
    where = np.repeat(np.arange(len(splits)), [len(hashes) for hashes in splits.values()])
    order = np.argsort(everything, kind="stable")
    hashes, starts, counts = np.unique(everything[order], return_index=True, return_counts=True)
    # The sort is stable: so the first and the last of equal hashes are in the lowest and the highest split.
    low, high = where[order[starts]], where[order[starts + counts - 1]]
    return Counted(hashes=hashes, counts=counts, first=order[starts], split=np.where(low == high, low, MIXED))


def surplus_rows(of: Counted, over: Counted) -> np.ndarray:
    """Returns how many rows of each hash `of` has more than `over`: int64 [distinct]."""
    return np.maximum(0, of.counts - matched_rows(of, over, over.counts, absent=0))


def matched_rows(of: Counted, other: Counted, values: np.ndarray, *, absent: int) -> np.ndarray:
    """Looks up the hashes of `of` in `other`: returns their `values`, or `absent`, [distinct of `of`]."""
    position, there = look_up(of.hashes, other.hashes)
    found = np.full(len(of.hashes), absent)
    found[there] = values[position[there]]
    return found


def shared_rows(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns positions in `right` whose hashes `left` has too, int64 [found]; both uint64 [rows]."""
    return np.flatnonzero(look_up(right, np.sort(left))[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leak:
    """The number of `rows` of `split` that the split `earlier` has too, and the hashes of some of them."""

    split: str
    earlier: str
    rows: int
    hashes: tuple[int, ...]  # ascending

    def positions(self, hashes: np.ndarray) -> list[int]:
        """The positions in `hashes`, uint64 [rows], of hashes that are in the leak."""
        return shared_rows(np.array(self.hashes, np.uint64), hashes).tolist()


def leaks(splits: Hashes, *, rows: int, at_once: int = AT_ONCE) -> list[Leak]:
    """Compares each split with those before it; there are `rows` rows in all, and `at_once` of them fit into
    memory.

    If there are more, hashes go to one file for each range of hashes, and the ranges are compared one by one:
    memory does not grow.
    """
    found: dict[tuple[str, str], Leak] = {}
    for hashes in _parts(splits, -(-rows // at_once)):
        part = {split: np.sort(some) for split, some in hashes.items()}
        for earlier, split in itertools.combinations(splits, 2):
            equal = part[split][look_up(part[split], part[earlier])[1]]
            before = found.get((split, earlier))
            examples = (*(before.hashes if before else ()), *np.unique(equal)[:_EXAMPLES].tolist())
            count = len(equal) + (before.rows if before else 0)
            found[split, earlier] = Leak(
                split=split, earlier=earlier, rows=count, hashes=examples[:_EXAMPLES]
            )
    return [leak for leak in found.values() if leak.rows]


def _parts(splits: Hashes, parts: int) -> Iterator[dict[str, np.ndarray]]:
    """The hashes of each split, one range of hashes after the other."""
    nothing = np.zeros(0, np.uint64)
    if parts <= 1:
        yield {split: np.concatenate([nothing, *(load() for load in of)]) for split, of in splits.items()}
        return
    with tempfile.TemporaryDirectory() as directory:
        files = {
            split: [pathlib.Path(directory, f"{number}-{part}") for part in range(parts)]
            for number, split in enumerate(splits)
        }
        for split, of in splits.items():
            for load in of:
                _append(load(), files[split])
        for part in range(parts):
            paths = {split: files[split][part] for split in splits}
            yield {s: np.fromfile(path, "<u8") if path.exists() else nothing for s, path in paths.items()}


def _append(hashes: np.ndarray, paths: Sequence[pathlib.Path]) -> None:
    """Adds each of `hashes`, uint64 [rows], to the file of its range."""
    sorted_hashes = np.sort(hashes)
    starts = [np.uint64((number << 64) // len(paths)) for number in range(1, len(paths))]
    for path, some in zip(
        paths, np.split(sorted_hashes, np.searchsorted(sorted_hashes, starts)), strict=True
    ):
        with path.open("ab") as file:
            file.write(some.astype("<u8").tobytes())

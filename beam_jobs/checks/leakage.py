"""Equal records in different splits, from the hashes of their contents.

Time grows with the number of records, memory does not: above `AT_ONCE` records, hashes go to files by their
range, and one range after the other is compared. Hashes have 64 bits: of 100 million records in each of two
splits, 0.0005 pairs collide by chance.
"""

import dataclasses
import itertools
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from beam_jobs.checks.anomalies import Anomaly, Policy

AT_ONCE = 1 << 24  # hashes in memory: 128 MiB, and about twice that to sort them
KIND = "leakage"

_EXAMPLES = 3  # records of a leak that are named

# By split: what gives the hashes of some of its records, uint64 [records], for instance of a shard.
Hashes = Mapping[str, Sequence[Callable[[], np.ndarray]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leak:
    """The number of `records` of `split` that the split `earlier` has too, and the hashes of some of them."""

    split: str
    earlier: str
    records: int
    hashes: tuple[int, ...]


def leaks(splits: Hashes, *, records: int, at_once: int = AT_ONCE) -> list[Leak]:
    """Compares each split with those before it; there are `records` in all, and `at_once` fit into memory."""
    found: dict[tuple[str, str], Leak] = {}
    for hashes in _parts(splits, -(-records // at_once)):
        part = {split: np.sort(some) for split, some in hashes.items()}
        for earlier, split in itertools.combinations(splits, 2):
            equal = _shared(part[earlier], part[split])
            before = found.get((split, earlier))
            examples = (*(before.hashes if before else ()), *np.unique(equal)[:_EXAMPLES].tolist())
            count = len(equal) + (before.records if before else 0)
            found[split, earlier] = Leak(
                split=split, earlier=earlier, records=count, hashes=examples[:_EXAMPLES]
            )
    return [leak for leak in found.values() if leak.records]


def anomaly(leak: Leak, examples: Sequence[str], policy: Policy, *, of: int) -> Anomaly | None:
    """Returns the leak as an anomaly of its split of `of` records; None where the policy allows it."""
    fraction, limit = leak.records / of, policy.limit(KIND)
    if fraction <= limit or policy.severity(KIND) == "ignore":
        return None
    return policy.anomaly(
        KIND,
        split=leak.split,
        message=f"{leak.records:,} of {of:,} records are also in split '{leak.earlier}', for example "
        + ", ".join(examples),
        value=fraction,
        threshold=limit,
    )


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


def _shared(sought: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Returns the hashes `of` that are among `sought` too; both sorted, uint64 [records]."""
    if not len(sought):
        return of[:0]
    position = np.minimum(np.searchsorted(sought, of), len(sought) - 1)
    return of[sought[position] == of]


def _append(hashes: np.ndarray, paths: Sequence[pathlib.Path]) -> None:
    """Adds each of `hashes`, uint64 [records], to the file of its range."""
    sorted_hashes = np.sort(hashes)
    starts = [np.uint64((number << 64) // len(paths)) for number in range(1, len(paths))]
    for path, some in zip(
        paths, np.split(sorted_hashes, np.searchsorted(sorted_hashes, starts)), strict=True
    ):
        with path.open("ab") as file:
            file.write(some.astype("<u8").tobytes())

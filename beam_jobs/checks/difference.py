"""Changes between two versions of a dataset, record by record, and records that leak between splits."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from beam_jobs.checks import validate
from beam_jobs.checks.anomalies import Anomaly, Policy
from beam_jobs.checks.dataset import ReadSplit, RowAddress, Verified, id_features
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.row_hashes import (
    MIXED,
    Counted,
    count_rows,
    matched_rows,
    shared_rows,
    surplus_rows,
)
from pipeline.data.statistics import drift

_EXAMPLES = 10  # records that are named for each finding


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Counts of rows. `changed` rows have the same id and other content; None where rows have no id."""

    before: int
    after: int
    added: int
    removed: int
    changed: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moved:
    """Records that were in split `before` and are in split `after` now."""

    before: str
    after: str
    records: int
    examples: tuple[RowAddress, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Leak:
    """Records of `split` that are also in a train split, bit for bit."""

    train_of: str  # directory of the dataset that the train split belongs to
    split: str
    records: int
    fraction: float  # fraction of the split's records
    examples: tuple[RowAddress, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Drift:
    split: str
    feature: str
    distance: drift.Distance


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    rows: Rows
    added_examples: tuple[RowAddress, ...]
    moved: tuple[Moved, ...]
    leaks: tuple[_Leak, ...]
    drifts: tuple[_Drift, ...]  # drift of every feature that can be compared, the largest first
    anomalies: tuple[Anomaly, ...]


def difference(before: Verified, after: Verified, policy: Policy) -> Difference:
    """Raises InputError if the two cannot be compared record by record."""
    _check_comparable(before, after)
    old, new = count_rows(before.contents), count_rows(after.contents)
    extra = surplus_rows(new, old)
    rows = Rows(
        before=before.rows,
        after=after.rows,
        added=int(extra.sum()),
        removed=int(surplus_rows(old, new).sum()),
        changed=None,
    )
    by_id = bool(id_features(after.schema)) and id_features(after.schema) == id_features(before.schema)
    old_ids, new_ids = _counted_ids(before), _counted_ids(after)
    return Difference(
        rows=_rows_by_id(rows, before, after, old_ids, new_ids) if by_id else rows,
        added_examples=_addresses(after, new.first[extra > 0]),
        moved=tuple(_moved(before, after, *((old_ids, new_ids) if by_id else (old, new)))),
        leaks=(*leaks(before, after), *leaks(after, after)),
        drifts=tuple(sorted(_drifts(before, after), key=lambda found: -found.distance.value)),
        anomalies=tuple(validate.baseline_anomalies(after.statistics, before.statistics, policy)),
    )


def leaks(trained: Verified, tested: Verified) -> Iterator[_Leak]:
    """Records in the other splits of `tested` that are also in the train split of `trained`."""
    if TRAIN not in trained.splits:
        return
    seen = trained.splits[TRAIN].contents
    for name, split in tested.splits.items():
        found = shared_rows(seen, split.contents) if name != TRAIN else []
        if len(found):
            yield _Leak(
                train_of=str(trained.directory),
                split=name,
                records=len(found),
                fraction=len(found) / len(split.contents),
                examples=tuple(split.address(position) for position in found[:_EXAMPLES].tolist()),
            )


def _rows_by_id(rows: Rows, before: Verified, after: Verified, old: Counted, new: Counted) -> Rows:
    """Returns the counts, where ids tell which rows of the two versions are the same row."""
    contents_before, contents_after = _all(before.contents), _all(after.contents)
    common = matched_rows(new, old, old.first, absent=-1)
    there = common >= 0
    changed = contents_after[new.first[there]] != contents_before[common[there]]
    return dataclasses.replace(
        rows,
        added=int(surplus_rows(new, old).sum()),
        removed=int(surplus_rows(old, new).sum()),
        changed=int(np.count_nonzero(changed)),
    )


def _moved(before: Verified, after: Verified, old: Counted, new: Counted) -> Iterator[Moved]:
    """Yields moved records. A record that is or was in several splits is a leak, and did not move."""
    was = matched_rows(new, old, old.split, absent=MIXED)
    for i, source in enumerate(before.splits):
        for j, target in enumerate(after.splits):
            found = np.flatnonzero((was == i) & (new.split == j)) if source != target else []
            if len(found):
                yield Moved(
                    before=source,
                    after=target,
                    records=int(new.counts[found].sum()),
                    examples=_addresses(after, new.first[found]),
                )


def _drifts(before: Verified, after: Verified) -> Iterator[_Drift]:
    for split, now in after.statistics.items():
        then = before.statistics.get(split)
        for name in now.features if then else ():
            other = then.features.get(name)
            distance = other and drift.distance(now.features[name], other)
            if distance:
                yield _Drift(split=split, feature=name, distance=distance)


def _counted_ids(verified: Verified) -> Counted:
    return count_rows({name: split.ids for name, split in verified.splits.items()})


def _all(splits: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *splits.values()])


def _addresses(verified: Verified, positions: np.ndarray) -> tuple[RowAddress, ...]:
    return tuple(_address(verified.splits, position) for position in np.sort(positions)[:_EXAMPLES].tolist())


def _address(splits: Mapping[str, ReadSplit], position: int) -> RowAddress:
    for split in splits.values():
        if position < len(split.contents):
            return split.address(position)
        position -= len(split.contents)
    raise IndexError(position)


def _check_comparable(before: Verified, after: Verified) -> None:
    if before.manifest.layout != after.manifest.layout:
        raise InputError(
            f"--against={before.directory}",
            received=f"layout '{before.manifest.layout}'",
            expected=f"'{after.manifest.layout}', the layout of {after.directory}",
            action="Convert one of them again with the other's --layout.",
        )

"""Records of a dataset that are in several of its splits."""

import functools
from collections.abc import Sequence

import numpy as np

from beam_jobs.validation import leakage
from beam_jobs.validation.anomalies import Anomaly, Policy
from beam_jobs.validation.leakage import Leak
from beam_jobs.verification.dataset import ReadSplit, RowAddress, Verified


def leaks(verified: Verified, policy: Policy) -> tuple[Anomaly, ...]:
    """Of each split, the rows that a split before it has too."""
    contents = {name: [functools.partial(_contents, split)] for name, split in verified.splits.items()}
    found = (
        leakage.anomaly(
            leak,
            list(map(str, _addresses(leak, verified.splits[leak.split]))),
            policy,
            of=len(verified.splits[leak.split].contents),
        )
        for leak in leakage.leaks(contents, records=verified.rows)
    )
    return tuple(anomaly for anomaly in found if anomaly)


def _contents(split: ReadSplit) -> np.ndarray:
    return split.contents


def _addresses(leak: Leak, split: ReadSplit) -> Sequence[RowAddress]:
    positions = np.flatnonzero(np.isin(split.contents, np.array(leak.hashes, np.uint64)))
    return [split.address(position) for position in positions[: len(leak.hashes)].tolist()]

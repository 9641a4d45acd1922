"""Anomalies of rows that stand in several splits of a dataset."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from beam_jobs.checks.anomalies import Anomaly, Policy
from pipeline.data.dataset import row_hashes
from pipeline.data.dataset.row_hashes import Hashes, Leak

KIND = "leakage"


def anomalies(
    hashes: Hashes, examples: Callable[[Leak], Sequence[str]], policy: Policy, *, rows: Mapping[str, int]
) -> list[Anomaly]:
    """Returns the leaks that the policy does not allow; `rows` is the number of rows of each split."""
    leaks = _leaks(hashes, policy, rows)
    return [each for leak in leaks for each in anomaly(leak, examples(leak), policy, of=rows[leak.split])]


def anomalies_of_groups(
    hashes: Hashes, policy: Policy, *, groups: Mapping[str, int], column: str
) -> list[Anomaly]:
    """The same of the groups by `column`; `groups` is their number in each split, `hashes` has their keys."""
    return [
        anomaly
        for leak in _leaks(hashes, policy, groups)
        for anomaly in policy.above_limit(
            KIND,
            leak.rows / groups[leak.split],
            split=leak.split,
            message=f"{leak.rows:,} of {groups[leak.split]:,} groups by '{column}' have rows in split "
            f"'{leak.earlier}', too: an input that names a split takes them apart",
        )
    ]


def _leaks(hashes: Hashes, policy: Policy, of: Mapping[str, int]) -> list[Leak]:
    return [] if policy.severity(KIND) == "ignore" else row_hashes.leaks(hashes, rows=sum(of.values()))


def anomaly(leak: Leak, examples: Sequence[str], policy: Policy, *, of: int) -> Iterator[Anomaly]:
    """Yields the leak as an anomaly unless the policy allows it; `of` is the number of rows of its split."""
    yield from policy.above_limit(
        KIND,
        leak.rows / of,
        split=leak.split,
        message=f"{leak.rows:,} of {of:,} records are also in split '{leak.earlier}', for example "
        + ", ".join(examples),
    )

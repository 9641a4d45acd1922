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
    if policy.severity(KIND) == "ignore":
        return []
    leaks = row_hashes.leaks(hashes, rows=sum(rows.values()))
    return [each for leak in leaks for each in anomaly(leak, examples(leak), policy, of=rows[leak.split])]


def anomaly(leak: Leak, examples: Sequence[str], policy: Policy, *, of: int) -> Iterator[Anomaly]:
    """Yields the leak as an anomaly unless the policy allows it; `of` is the number of rows of its split."""
    yield from policy.above_limit(
        KIND,
        leak.rows / of,
        split=leak.split,
        message=f"{leak.rows:,} of {of:,} records are also in split '{leak.earlier}', for example "
        + ", ".join(examples),
    )

"""Anomalies of rows that stand in several splits of a dataset."""

from collections.abc import Callable, Mapping, Sequence

from beam_jobs.checks.anomalies import Anomaly, Policy
from pipeline.data.dataset import row_hashes
from pipeline.data.dataset.row_hashes import Hashes, Leak

KIND = "leakage"


def anomalies(
    hashes: Hashes, examples: Callable[[Leak], Sequence[str]], policy: Policy, *, rows: Mapping[str, int]
) -> list[Anomaly]:
    """Returns the leaks of each split, of so many `rows`, that the policy does not allow."""
    leaks = row_hashes.leaks(hashes, rows=sum(rows.values()))
    found = (anomaly(leak, examples(leak), policy, of=rows[leak.split]) for leak in leaks)
    return [each for each in found if each]


def anomaly(leak: Leak, examples: Sequence[str], policy: Policy, *, of: int) -> Anomaly | None:
    """Returns the leak as an anomaly of its split of `of` rows; None where the policy allows it."""
    fraction, limit = leak.rows / of, policy.limit(KIND)
    if fraction <= limit or policy.severity(KIND) == "ignore":
        return None
    return policy.anomaly(
        KIND,
        split=leak.split,
        message=f"{leak.rows:,} of {of:,} records are also in split '{leak.earlier}', for example "
        + ", ".join(examples),
        value=fraction,
        threshold=limit,
    )

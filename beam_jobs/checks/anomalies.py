"""Kinds of anomalies of a dataset as a whole, and how serious each is."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pipeline.base.errors import InputError, nearest
from pipeline.data.statistics.drift import COARSEST

FORMAT = "penstock.anomalies/1"

# Kinds that were added later stand in the file where they were found or set: what had none keeps its digest.
_LATER = frozenset({"repeated_file"})
_NAMED = 5  # values that a message names, at most

Severity = Literal["error", "warning", "ignore"]
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "ignore")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of anomaly. A value up to `limit` is no anomaly; None where nothing is measured."""

    meaning: str
    severity: Severity = "warning"
    limit: float | None = None


KINDS: Mapping[str, Kind] = {
    "missing": Kind(meaning="more values missing than the schema's max_missing_fraction", severity="error"),
    "mostly_missing": Kind(meaning="fraction of values missing", limit=0.9),
    "constant": Kind(meaning="every value is the same"),
    "rounding": Kind(meaning="error of the numbers as stored, in standard deviations", limit=COARSEST),
    "out_of_domain": Kind(meaning="fraction of values outside the declared vocabulary or range", limit=0.0),
    "absent_class": Kind(meaning="a declared class that no row has"),
    "leakage": Kind(meaning="fraction of records that an earlier split has too", limit=0.0),
    "repeated_file": Kind(meaning="a file that has the bytes, or all the rows, of another one"),
    "feature_set": Kind(meaning="a feature that only this dataset or only the baseline has"),
    "examples": Kind(meaning="relative change of the number of rows since the baseline", limit=0.5),
    "missing_jump": Kind(meaning="rise of the fraction of missing values since the baseline", limit=0.05),
    "new_values": Kind(meaning="fraction of values that the baseline has not seen", limit=0.0),
    "drift": Kind(meaning="distance of the distribution from the baseline's", limit=0.05),
}


HELP = "Kinds: " + "; ".join(
    f"{name} ({kind.severity}{'' if kind.limit is None else f', limit {kind.limit:g}'}): {kind.meaning}"
    for name, kind in KINDS.items()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anomaly:
    """A finding. `value` was measured; up to `threshold` it would be no anomaly."""

    split: str
    feature: str  # empty: the split as a whole
    kind: str
    severity: Severity
    message: str
    value: float | None = None
    threshold: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """Severities and limits by kind, where they differ from those of `KINDS`."""

    severities: Mapping[str, Severity] = dataclasses.field(default_factory=dict)
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def severity(self, kind: str) -> Severity:
        return self.severities.get(kind, KINDS[kind].severity)

    def limit(self, kind: str) -> float:
        limit = self.limits.get(kind, KINDS[kind].limit)
        return 0.0 if limit is None else limit

    def anomaly(self, kind: str, *, feature: str = "", **fields: Any) -> Anomaly:
        """Returns an `Anomaly` of the severity of its kind; without `feature` it is the split's."""
        return Anomaly(kind=kind, feature=feature, severity=self.severity(kind), **fields)

    def above_limit(
        self, kind: str, value: float, *, limit: float | None = None, **fields: Any
    ) -> Iterator[Anomaly]:
        """Yields an `Anomaly` if `value` is above `limit`, by default that of its kind."""
        limit = self.limit(kind) if limit is None else limit
        if value > limit:
            yield self.anomaly(kind, value=value, threshold=limit, **fields)


def parse_policy(severities: Sequence[str], limits: Sequence[str]) -> Policy:
    """The policy of texts `kind=severity` and `kind=number`; raises InputError for any other text."""
    measured = [name for name, kind in KINDS.items() if kind.limit is not None]
    pairs = [_pair("--severity", text, KINDS) for text in severities]
    for kind, severity in pairs:
        if severity not in _SEVERITIES:
            raise _bad_flag("--severity", f"{kind}={severity}", f"one of {', '.join(_SEVERITIES)}")
    return Policy(
        severities=dict(pairs),
        limits={kind: _number(kind, text) for kind, text in (_pair("--limit", t, measured) for t in limits)},
    )


def check(anomalies: Iterable[Anomaly]) -> None:
    """Raises InputError, which lists all anomalies, if one of them is an error."""
    anomalies = list(anomalies)
    errors = [anomaly for anomaly in anomalies if anomaly.severity == "error"]
    if errors:
        kinds = sorted({error.kind for error in errors})
        listed = "; ".join(map(line, anomalies))
        raise InputError(
            "the data as a whole",
            received=f"{len(errors)} of severity 'error' ({', '.join(kinds)})",
            expected="none",
            action="Nothing was published. Correct the data or the schema, or allow for it with --limit or "
            f"--severity={kinds[0]}=warning. Found: {listed}",
        )


def line(anomaly: Anomaly) -> str:
    """The anomaly as one line of text."""
    where = f"{anomaly.split}, '{anomaly.feature}'" if anomaly.feature else anomaly.split
    return f"{anomaly.severity}: {anomaly.kind}: {where}: {anomaly.message}"


def format_values(values: Sequence[tuple[str, int]], *, of: int) -> str:
    """Formats the number of values, their share of `of` rows, and the first values with their counts."""
    rows = sum(count for _, count in values)
    first = ", ".join(f"{value!r} × {count:,}" for value, count in values[:_NAMED])
    return f"{len(values):,} value{'s' * (len(values) > 1)} in {rows / of:.2%} of rows: {first}"


def dumps(anomalies: Sequence[Anomaly], policy: Policy, *, baseline_digest: str | None) -> str:
    """Writes findings and rules as JSON, without paths, so that equal data gives equal bytes."""
    found = {anomaly.kind for anomaly in anomalies}
    document = {
        "format": FORMAT,
        "baseline_digest": baseline_digest,
        "severities": {
            kind: policy.severity(kind)
            for kind in KINDS
            if kind not in _LATER or kind in policy.severities or kind in found
        },
        "limits": {name: policy.limit(name) for name, kind in KINDS.items() if kind.limit is not None},
        "anomalies": [dataclasses.asdict(anomaly) for anomaly in anomalies],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _pair(flag: str, text: str, kinds: Iterable[str]) -> tuple[str, str]:
    kind, _, value = text.partition("=")
    if kind not in kinds:
        raise _bad_flag(flag, text, f"KIND=VALUE, KIND one of {', '.join(kinds)}", meant=nearest(kind, kinds))
    return kind, value


def _number(kind: str, text: str) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise _bad_flag("--limit", f"{kind}={text}", "a number of 0 or more")
    return limit


def _bad_flag(flag: str, received: str, expected: str, *, meant: str | None = None) -> InputError:
    action = f"Did you mean {meant}?" if meant else "See --help for what there is."
    return InputError(flag, received=received, expected=expected, action=action)

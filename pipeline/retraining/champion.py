"""Finds the champion, which is served now, and the anchor that no later model may fall behind."""

import dataclasses
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set

from pipeline.base.errors import InputError
from pipeline.data.dataset import records as exported
from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.statistics.drift import Distance, distance, l_infinity
from pipeline.publishing import publish, versions
from pipeline.retraining import datasets, records
from pipeline.retraining.datasets import Span
from pipeline.retraining.records import Root

PUBLISHED, ROLLED_BACK, TAKEN_BACK = "published", "rolled_back", "taken_back"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """A published version. `at` is the time of publication, ISO 8601; `digest` that of the export.

    `identity` names the model by the cycle that made it, the hash of all its inputs. A second export of the
    same model has other bytes: TensorFlow gives its resources random names.
    """

    version: int
    directory: pathlib.Path
    cycle: str
    at: str
    digest: str

    @property
    def identity(self) -> str:
        return self.cycle or self.digest


def champion(root: Root, entries: Sequence[Mapping]) -> Served | None:
    """Returns the newest version; None where nothing was ever published.

    Raises:
      InputError: a version that was published, says the audit log, is missing or damaged.
    """
    expected = _last_published(entries, publish.set_aside(root.serving))
    newest = versions.newest(root.serving)
    if expected is not None and (newest is None or newest < expected):
        raise InputError(
            f"the champion, version {expected} of {root.serving}",
            received=f"version {newest} as the newest" if newest else "no version at all",
            expected=f"the version that {root.audit} says was published",
            action="Restore its folder from a copy; or republish another one: "
            "pipeline.retrain rollback --to=VERSION --reason=…",
        )
    return None if newest is None else served(root, newest)


def anchor(root: Root, version: int) -> Served | None:
    """Returns the version; the first one where `version` is 0. None where nothing is published."""
    there = versions.versions(root.serving)
    if not version:
        return served(root, there[0]) if there else None
    if version not in there:
        raise InputError(
            "config.gate_anchor",
            received=version,
            expected=f"a version in {root.serving}: {', '.join(map(str, there)) or 'there is none yet'}",
            action="Correct it, or set 0: then it is the first one.",
        )
    return served(root, version)


def require_same_anchor(root: Root, version: int, plans: Sequence[Mapping]) -> None:
    """Raises InputError where the anchor of the last cycle, the first version, is gone.

    Else the next version would take its place, and small steps down would start again below it.

    Args:
      version: config.gate_anchor; 0: the first version.
    """
    met = next(
        (plan["anchor"] for plan in reversed(plans) if plan["anchor"] and not plan["config"]["gate_anchor"]),
        None,
    )
    if version or met is None or met["version"] in versions.versions(root.serving):
        return
    raise InputError(
        f"the anchor, version {met['version']} of {root.serving}",
        received="no such version, or one that is damaged",
        expected="the anchor of the last cycle",
        action="Restore its folder from a copy; or set config.gate_anchor to another version.",
    )


def served(root: Root, version: int) -> Served:
    """Reads a version; raises InputError where it is not whole."""
    directory = versions.path_of(root.serving, version)
    document = versions.published(root.serving, version)
    times = records.corrected_times(records.audit_entries(root.audit, damage=[]))["versions"]
    return Served(
        version=version,
        directory=directory,
        cycle=document["cycle"],
        at=times.get(version, document["at"]),
        digest=exported.open_export(directory)["digest"],
    )


def _last_published(entries: Sequence[Mapping], aside: Set[int]) -> int | None:
    """Returns the newest version that should be there. After a kill, `aside` may be ahead of the log."""
    taken = {entry["version"] for entry in entries if entry["act"] == TAKEN_BACK}
    there = {entry["version"] for entry in entries if entry["act"] in (PUBLISHED, ROLLED_BACK)}
    return max(there - taken - aside, default=None)


# --- Drift: how far new spans are from the champion's training data.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """A feature of a span that moved by more than chance. `value` is 0 … 1, in terms of `measure`."""

    span: Span
    feature: str
    measure: str
    value: float
    where: str

    def __str__(self) -> str:
        what = f", most of all '{self.where}'" if self.where else ""
        moved = f"feature '{self.feature}' moved by {self.value:.3f}"
        return f"span {self.span.name}: {moved} ({self.measure}{what})"


def measure_drift(
    root: Root, spans: Sequence[Span], champion: Served | None, *, ignored: Collection[str] = ()
) -> list[Drift]:
    """Compares converted spans with the champion's training statistics; the largest drift comes first.

    Args:
      ignored: features that always move, such as a date.
    """
    if champion is None:
        return []
    before = statistics.read(champion.directory / STATISTICS_FILE_NAME)[TRAIN].features
    watched = {name: feature for name, feature in before.items() if name not in ignored}
    found = [drift for span in spans if span.result for drift in _span_drifts(root, span, watched)]
    return sorted(found, key=lambda each: (-each.value, each.span.name, each.feature))


def _span_drifts(root: Root, span: Span, before: Mapping[str, FeatureStatistics]) -> Iterator[Drift]:
    splits = statistics.read(datasets.dataset_of(root, *span.key) / STATISTICS_FILE_NAME)
    rows = span.result["rows"]
    largest = TRAIN if rows.get(TRAIN) else max(rows, key=rows.get)
    for name, feature in splits[largest].features.items():
        if name not in before:
            continue
        for far in (distance(feature, before[name]), missing_distance(feature, before[name])):
            if far and far.value > far.chance:
                yield Drift(span=span, feature=name, measure=far.measure, value=far.value, where=far.where)


def missing_distance(now: FeatureStatistics, before: FeatureStatistics) -> Distance:
    """Returns how much the share of examples without a value changed, and how much chance would change it."""
    counts = ({"": each.missing, "present": each.present} for each in (now, before))
    return dataclasses.replace(l_infinity(*counts), measure="missing", where="")

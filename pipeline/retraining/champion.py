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
from pipeline.publishing import journal, publish, versions
from pipeline.retraining import datasets, records
from pipeline.retraining.datasets import Span
from pipeline.retraining.records import Root

PUBLISHED, ROLLED_BACK, TAKEN_BACK, GIVEN_UP = "published", "rolled_back", "taken_back", "given_up"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """A published version. `at` is the time of publication, ISO 8601; `digest` is the digest of the export.

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
    """Returns the newest version; None where nothing was ever published, or every version was given up.

    Raises:
      InputError: a version that was published, as the audit log says, is missing or damaged.
    """
    expected = _last_published(entries, publish.set_aside(root.serving))
    newest = versions.newest(root.serving)
    if expected is not None and (newest is None or newest < expected):
        raise _lost(root, expected)
    try:
        return None if newest is None else served(root, newest)
    except InputError:
        raise _lost(root, newest) from None


def _lost(root: Root, version: int) -> InputError:
    received, expected = damage_of(root, version)
    return InputError(
        f"the champion, version {version} of {root.serving}",
        received=received,
        expected=expected,
        action=f"Restore it from a copy; or run `pipeline.retrain {_way_back(root, version)} --reason=…`.",
    )


def damage_of(root: Root, version: int) -> tuple[str, str]:
    """Returns what is wrong with a published version, with the file's name, and what was expected."""
    directory = versions.path_of(root.serving, version)
    if not directory.is_dir():
        return "no such folder", f"the version that {root.audit} says was published"
    try:
        versions.check(root.serving, version)
        exported.open_export(directory)
    except InputError as error:
        return f"{error.thing}: {error.received}", error.expected
    return "files that changed a moment ago", "those that were published"


def _way_back(root: Root, version: int) -> str:
    """Returns the command that serves the content of a damaged version again or, if that is gone, the nearest
    version.
    """
    known = journal.load(root.serving).known
    sound = [each for each in versions.versions(root.serving)[::-1] if versions.is_sound(root.serving, each)]
    cycle = known[version].cycle if version in known else ""
    if same := [each for each in sound if known[each].cycle == cycle]:
        return f"rollback --to={same[0]}"
    if cycle and _can_be_promoted(root, cycle):
        return f"promote --cycle={cycle}"
    return f"rollback --to={sound[0] if sound else 0}"


def _can_be_promoted(root: Root, cycle: str) -> bool:
    """Returns whether the cycle's export is there, unchanged since its evaluation."""
    folder = root.cycle(cycle)
    try:
        stages = ("export", "parity", "infra", "decide", "ended")
        export, parity, infra, *ends = (records.read_result(folder / f"{stage}.json") for stage in stages)
        checked = all((export, parity, infra, *ends)) and parity["passed"] and infra["passed"]
        return checked and exported.open_export(folder / "export")["digest"] == export["export_digest"]
    except InputError:
        return False


def anchor(root: Root, version: int) -> Served | None:
    """Returns the version; the first one where `version` is 0. None where nothing is published."""
    there = versions.versions(root.serving)
    if not version and not there:
        return None
    if version and version not in there:
        raise InputError(
            "config.gate_anchor",
            received=version,
            expected=f"a version in {root.serving}: {', '.join(map(str, there)) or 'there is none yet'}",
            action="Correct it, or set 0: then it is the first one.",
        )
    try:
        return served(root, version or there[0])
    except InputError:
        raise _lost_anchor(root, version or there[0]) from None


def require_same_anchor(root: Root, version: int, plans: Sequence[Mapping]) -> None:
    """Raises InputError where the anchor of the last cycle, the first version, is gone.

    Otherwise the next version would take its place, and a new series of small steps down could start from
    there. The same model under another number may take its place; if no version is left, any model may.

    Args:
      version: config.gate_anchor; 0: the first version.
    """
    met = next(
        (plan["anchor"] for plan in reversed(plans) if plan["anchor"] and not plan["config"]["gate_anchor"]),
        None,
    )
    there = versions.versions(root.serving)
    if version or met is None or not there or met["version"] in there:
        return
    if versions.published(root.serving, there[0])["cycle"] != met["cycle"]:
        raise _lost_anchor(root, met["version"])


def _lost_anchor(root: Root, version: int) -> InputError:
    received, _ = damage_of(root, version)
    there = [each for each in versions.versions(root.serving) if each != version]
    another = f"config.gate_anchor to another version, such as {there[0]}" if there else "another one"
    return InputError(
        f"the anchor, version {version} of {root.serving}",
        received=received,
        expected="the anchor of the last cycle",
        action=f"Restore its folder from a copy; or set {another}.",
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
    """Returns the newest version that should be there. After a kill, `aside` may be newer than the log."""
    since = max((number for number, entry in enumerate(entries) if entry["act"] == GIVEN_UP), default=0)
    entries = entries[since:]
    taken = {entry["version"] for entry in entries if entry["act"] == TAKEN_BACK}
    there = {entry["version"] for entry in entries if entry["act"] in (PUBLISHED, ROLLED_BACK)}
    return max(there - taken - aside, default=None)


# --- Drift: how far new spans are from the champion's training data.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drift:
    """A feature of a span whose values changed by more than chance. `value` is 0 … 1, in the unit of
    `measure`.
    """

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

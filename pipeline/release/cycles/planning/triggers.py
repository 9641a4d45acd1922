"""Why a cycle is due: new spans, the clock, the age of what is served, drift, or another config."""

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Sequence

from croniter import CroniterBadDateError, croniter

from pipeline.release.cycles.planning.champion import Served
from pipeline.release.cycles.planning.drift import Drift
from pipeline.release.cycles.records.ended import Begun
from pipeline.release.cycles.settings import Settings
from pipeline.release.cycles.spans.survey import Span


@dataclasses.dataclass(frozen=True, kw_only=True)
class Situation:
    """What the triggers look at.

    Attributes:
      spans: of the window and the holdout.
      judged: cycles that came to a decision, the oldest first.
      drifts: of the new spans that are converted.
      settings_digest: see Settings.digest.
    """

    settings: Settings
    settings_digest: str
    spans: Sequence[Span]
    champion: Served | None
    judged: Sequence[Begun]
    drifts: Sequence[Drift]
    now: datetime.datetime


def new_spans(spans: Sequence[Span], judged: Sequence[Begun]) -> list[Span]:
    """Spans that no cycle has come to a decision about, as they are now."""
    seen = {key for cycle in judged for key in cycle.spans}
    return [span for span in spans if span.key not in seen]


def due(situation: Situation) -> Iterator[str]:
    """A sentence for each trigger that makes a cycle due."""
    yield from _of_spans(situation)
    yield from _of_config(situation)
    yield from _of_cron(situation)
    yield from _of_age(situation)
    yield from _of_drift(situation)


def not_yet(situation: Situation) -> Iterator[str]:
    """What each trigger waits for, where none makes a cycle due."""
    triggers = situation.settings.config.triggers
    if triggers.new_spans:
        there = len(new_spans(situation.spans, situation.judged))
        needed = f"{triggers.new_spans} new span{'s' * (triggers.new_spans != 1)}"
        yield f"{needed} needed, {there} there"
    if triggers.cron:
        coming = _when(croniter(triggers.cron, situation.now).get_next)
        when = f"is due next at {_told(coming)}" if coming else "is never due again"
        yield f"the schedule '{triggers.cron}' {when}"
    if triggers.age_days and situation.champion:
        age = f"{_age(situation):.1f} days old"
        yield f"version {situation.champion.version} is {age}, of {triggers.age_days:g}"
    if triggers.drift:
        farthest = max((drift.value for drift in situation.drifts), default=0.0)
        yield f"new spans drifted by {farthest:.3f} at most, of {triggers.drift:g}"


def _of_spans(situation: Situation) -> Iterator[str]:
    needed = situation.settings.config.triggers.new_spans
    fresh = new_spans(situation.spans, situation.judged)
    if needed and len(fresh) >= needed:
        names = ", ".join(span.name for span in fresh[:3]) + (", …" if len(fresh) > 3 else "")
        yield f"{len(fresh)} new span{'s' * (len(fresh) != 1)}: {names}"


def _of_config(situation: Situation) -> Iterator[str]:
    if situation.judged and situation.judged[-1].plan["settings"] != situation.settings_digest:
        yield f"the config is another than that of cycle {situation.judged[-1].id}"


def _of_cron(situation: Situation) -> Iterator[str]:
    cron = situation.settings.config.triggers.cron
    if not cron:
        return
    last = _when(croniter(cron, situation.now).get_prev)
    if croniter.match(cron, situation.now):
        last = situation.now.replace(second=0, microsecond=0)
    since = situation.judged[-1].plan["at"] if situation.judged else ""
    if last is None:
        return
    if not since or datetime.datetime.fromisoformat(since) < last:
        yield f"the schedule '{cron}' was due at {_told(last)}"


def _when(search: Callable[[type], datetime.datetime]) -> datetime.datetime | None:
    """None where there is no such time: a schedule may name a year."""
    try:
        return search(datetime.datetime)
    except CroniterBadDateError:
        return None


def _of_age(situation: Situation) -> Iterator[str]:
    most = situation.settings.config.triggers.age_days
    if most and situation.champion and _age(situation) > most:
        yield f"version {situation.champion.version} is {_age(situation):.1f} days old, more than {most:g}"


def _of_drift(situation: Situation) -> Iterator[str]:
    least = situation.settings.config.triggers.drift
    if least and situation.drifts and situation.drifts[0].value >= least:
        yield f"{situation.drifts[0]}, {least:g} or more"


def _age(situation: Situation) -> float:
    """Days since the champion was published."""
    published = datetime.datetime.fromisoformat(situation.champion.at)
    return (situation.now - published).total_seconds() / 86_400


def _told(time: datetime.datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"

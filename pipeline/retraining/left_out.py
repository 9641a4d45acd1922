"""Tells of spans that are left out: each command repeats them, and one notification names each new one."""

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.retraining import notify, records
from pipeline.retraining.datasets import Span
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings

LEFT_OUT = "left_out"  # the entry of the audit log, and the event of the notification
_LISTED = 12  # spans that are listed; plan --json has all
_NAMED = 3  # names within a line


def tell(root: Root, settings: Settings, spans: Sequence[Span], *, at: datetime.datetime) -> None:
    """Records which spans are left out now, if others were before; notifies of those never left out before.

    A person who names a span in config.spans.exclude knows of it and is not notified. A span whose files,
    schema or flags have changed counts as another one.
    """
    before = _entries(records.audit_entries(root.audit))
    now = [{"name": span.name, "fingerprint": span.fingerprint, "why": span.unusable} for span in spans]
    if now == (before[-1]["spans"] if before else []):
        return
    known = {(each["name"], each["fingerprint"]) for entry in before for each in entry["spans"]}
    new = [span for span in spans if span.key not in known and span.name not in settings.spans.exclude]
    if new:  # comes before the entry: two notifications are better than none
        told = [{"name": span.name, "why": span.unusable} for span in new]
        notify.send(root, settings, {"event": LEFT_OUT, "spans": told})
    records.add_entry(root.audit, LEFT_OUT, at=at, spans=now)


def last_told(entries: Sequence[Mapping]) -> dict[str, str]:
    """Maps each span that the last `reconcile` left out to the reason, from entries of the audit log."""
    found = _entries(entries)
    return {span["name"]: span["why"] for span in found[-1]["spans"]} if found else {}


def lines(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each span, the newest last, with the first sentence of its reason."""
    names = sorted(reasons)
    if len(names) > _LISTED:
        yield f"{len(names) - _LISTED} older spans are left out too: `plan --json` has all"
    for name in names[-_LISTED:]:
        yield f"span {name} is left out: {reasons[name].partition('. ')[0].removesuffix('.')}"


def names_line(names: Collection[str]) -> str:
    """Formats names of spans that are left out, in brackets; empty where there are none."""
    first, more = sorted(names)[:_NAMED], len(names) - _NAMED
    return f" (left out: {', '.join(first)}{f' and {more} more' if more > 0 else ''})" if first else ""


def _entries(entries: Sequence[Mapping]) -> list[Mapping]:
    return [entry for entry in entries if entry["act"] == LEFT_OUT]

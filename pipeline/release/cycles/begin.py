"""Writes the plan of a cycle: from then on the cycle exists."""

import datetime
import json

from pipeline.release.cycles.planning import code
from pipeline.release.cycles.planning.champion import Served
from pipeline.release.cycles.planning.plan import Plan
from pipeline.release.cycles.planning.window import Window
from pipeline.release.cycles.records import ended, receipts
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.settings import Settings
from pipeline.release.cycles.spans.survey import Span


def begin(
    root: Root, settings: Settings, plan: Plan, *, at: datetime.datetime, backfill: bool = False
) -> dict:
    """The plan's receipt; that of a cycle that was begun before stays as it is.

    Args:
      backfill: whether a person asked for the cycle, of spans of the past.
    """
    folder = root.cycle(plan.id)
    folder.mkdir(parents=True, exist_ok=True)
    receipts.fsync_folder(root.cycles)
    return receipts.write(
        folder / ended.PLAN,
        {
            "cycle": plan.id,
            "at": at.isoformat(),
            "due": plan.due,
            "notes": plan.notes,
            "spans": [_span(span, plan.window) for span in plan.window.spans],
            "left_out": [{"name": span.name, "why": span.unusable} for span in plan.window.left_out],
            "champion": _served(plan.champion),
            "anchor": _served(plan.anchor),
            "backfill": backfill,
            "work": plan.work,
            "settings": plan.settings_digest,
            "code": code.digest(),
            "config": json.loads(settings.config.to_json_best_effort()),
        },
    )


def _span(span: Span, window: Window) -> dict:
    roles = {"training": window.training, "holdout": window.holdout}
    return {
        "name": span.name,
        "fingerprint": span.fingerprint,
        "roles": [role for role, spans in roles.items() if span in spans],
        "raw": str(span.raw.path),
        "raw_digest": span.raw.digest,
        "dataset_digest": span.receipt["dataset_digest"],
        "rows": span.receipt["rows"],
    }


def _served(served: Served | None) -> dict:
    """Empty where there is none."""
    if served is None:
        return {}
    return {
        "version": served.version,
        "cycle": served.cycle,
        "identity": served.identity,
        "at": served.at,
        "export_digest": served.digest,
    }

"""Writes the plan of a cycle: from then on the cycle exists."""

import datetime

from pipeline.base import files
from pipeline.retraining import plan as plan_lib
from pipeline.retraining import records
from pipeline.retraining.champion import Served
from pipeline.retraining.datasets import Span
from pipeline.retraining.plan import Plan, Window
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings


def begin(
    root: Root, settings: Settings, plan: Plan, *, at: datetime.datetime, backfill: bool = False
) -> dict:
    """The plan's receipt; that of a cycle that was begun before stays as it is.

    Args:
      backfill: whether a person asked for the cycle, of spans of the past.
    """
    folder = root.cycle(plan.id)
    folder.mkdir(parents=True, exist_ok=True)
    files.synchronise(root.cycles)
    return records.write_result(
        folder / records.PLAN,
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
            "code": plan_lib.code_digest(),
            "config": settings.given,
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

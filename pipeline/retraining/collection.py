"""GC: versions, runs and exports that nobody needs any more. Receipts and reports stay."""

import shutil
from collections.abc import Sequence

from pipeline.base import files
from pipeline.publishing import publish as publish_lib
from pipeline.publishing import versions
from pipeline.retraining import champion as champion_lib
from pipeline.retraining import records
from pipeline.retraining.records import Begun, Root
from pipeline.retraining.settings import Settings

_LARGE = ("run", "export", "answers.npz")


def collect(root: Root, settings: Settings, *, running: str = "") -> dict:
    """Removes what config.keep does not keep; returns the versions and the cycles whose files went.

    Args:
      running: a cycle that is not finished, and keeps everything.
    """
    anchor = champion_lib.anchor(root, settings.gate_anchor)
    kept = {anchor.version} if anchor else set()
    gone = []
    if root.serving.is_dir():
        gone = publish_lib.collect(root.serving, keep=settings.keep.versions, protected=kept)
    return {"versions": gone, "cycles": _emptied(root, settings.keep.cycles, running)}


def _emptied(root: Root, keep: int, running: str) -> list[str]:
    """Cycles that have ended, beyond the newest `keep` and those that are served."""
    served = _served_cycles(root)
    done = [cycle for cycle in records.cycle_history(root) if cycle.end or cycle.failure]
    emptied = []
    for cycle in _beyond(done, keep):
        if cycle.id not in {*served, running} and _empty(cycle):
            emptied.append(cycle.id)
    return emptied


def _beyond(done: Sequence[Begun], keep: int) -> Sequence[Begun]:
    return done[: max(0, len(done) - keep)]


def _served_cycles(root: Root) -> set[str]:
    there = versions.versions(root.serving) if root.serving.is_dir() else []
    return {versions.published(root.serving, version)["cycle"] for version in there}


def _empty(cycle: Begun) -> bool:
    """Whether there was something to remove."""
    found = [path for name in _LARGE if (path := cycle.folder / name).exists()]
    for path in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    files.synchronise(cycle.folder)
    return bool(found)

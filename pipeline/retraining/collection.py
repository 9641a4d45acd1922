"""GC: removes versions, runs and exports that nobody needs any more. Stage results and reports stay."""

import shutil

from pipeline.base import files
from pipeline.publishing import publish as publish_lib
from pipeline.publishing import versions
from pipeline.retraining import champion as champion_lib
from pipeline.retraining import records
from pipeline.retraining.records import Cycle, Root
from pipeline.retraining.settings import Settings

_LARGE = ("run", "export", "answers.npz")


def collect(root: Root, settings: Settings, *, running: str = "") -> dict:
    """Removes what config.keep does not keep; returns the versions and the cycles that lost files.

    Args:
      running: an unfinished cycle, which keeps everything.
    """
    anchor = champion_lib.anchor(root, settings.gate_anchor)
    kept = {anchor.version} if anchor else set()
    gone = []
    if root.serving.is_dir():
        gone = publish_lib.collect(root.serving, keep=settings.keep.versions, protected=kept)
    return {"versions": gone, "cycles": _emptied(root, settings.keep.cycles, running)}


def _emptied(root: Root, keep: int, running: str) -> list[str]:
    """Empties cycles that have ended, except the newest `keep` and those that are served."""
    served = versions.versions(root.serving)
    kept = {running, *(versions.published(root.serving, version)["cycle"] for version in served)}
    done = [cycle for cycle in records.cycle_history(root) if cycle.end or cycle.failure]
    return [cycle.id for cycle in done[: max(0, len(done) - keep)] if cycle.id not in kept and _empty(cycle)]


def _empty(cycle: Cycle) -> bool:
    """Removes the large files; returns whether there were some."""
    found = [path for name in _LARGE if (path := cycle.folder / name).exists()]
    for path in found:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    files.synchronise(cycle.folder)
    return bool(found)

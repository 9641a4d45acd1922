"""Strangers' data sets through the README's commands: each works, or ends before training with one line.

  make strangers
  python -m tests.strangers --only=utf16,names_twice --again

Anything else is a failure: a traceback, a second line, an end after training began, a metric that is not
finite. Every command runs in a fork of this process, which has imported TensorFlow and Beam. Results lie
below build/strangers; those of the same commit are not run again.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import traceback
from collections.abc import Sequence

from absl import app, flags

_ONLY = flags.DEFINE_list("only", [], "Names of the sets to run; empty: all.")
_JOBS = flags.DEFINE_integer("jobs", os.cpu_count() or 1, "Sets at a time.", 1)
_FOLDER = flags.DEFINE_string("folder", "build/strangers", "Where everything goes.")
_AGAIN = flags.DEFINE_bool("again", False, "Run again what this commit has run.")
_WITHOUT_TRAINING = flags.DEFINE_bool("without_training", False, "Only the commands that need no TensorFlow.")
_SECONDS = flags.DEFINE_integer("seconds", 600, "After which a command counts as hanging.", 1)


def _commit() -> str:
    """What results are of: the commit, and whether all commands were run."""
    told = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return told.stdout.strip() + " without training" * _WITHOUT_TRAINING.value


def _run_one(name: str, folder: pathlib.Path, commit: str) -> None:
    """Runs in a fork of its own; leaves result.json."""
    from tests.shared import forked
    from tests.strangers.catalogue import STRANGERS
    from tests.strangers.walk import NEED_TENSORFLOW, walk

    def run(arguments: Sequence[str], output: pathlib.Path) -> forked.Ended:
        return forked.command(arguments, output, timeout=_SECONDS.value)

    skipped = NEED_TENSORFLOW if _WITHOUT_TRAINING.value else ()
    outcome = dataclasses.asdict(walk(STRANGERS[name], folder, run, skip=skipped)) | {"commit": commit}
    (folder / "result.json").write_text(json.dumps(outcome, indent=1, ensure_ascii=False))


def _read(folder: pathlib.Path) -> dict | None:
    result = folder / "result.json"
    return json.loads(result.read_text()) if result.exists() else None


def _run_all(names: Sequence[str], root: pathlib.Path, commit: str) -> None:
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < _JOBS.value:
            name = waiting.pop(0)
            sys.stdout.flush()
            child = os.fork()
            if not child:
                try:
                    _run_one(name, root / name, commit)
                except Exception:
                    traceback.print_exc()
                finally:
                    os._exit(0)
            running[child] = name
        child, _ = os.wait()
        _tell(running.pop(child), root)


def _tell(name: str, root: pathlib.Path) -> None:
    found = _read(root / name)
    line = f"{found['outcome']:6} {found['stage']:12} {found['line']}" if found else "FAILS: the runner broke"
    print(f"{name:20} {line}", flush=True)


def main(argv: Sequence[str]) -> int:
    del argv
    from tests.shared.preloaded import preload, preload_without_tensorflow
    from tests.shared.table import show
    from tests.strangers.catalogue import STRANGERS

    root, commit = pathlib.Path(_FOLDER.value).resolve(), _commit()
    names = [name for name in STRANGERS if not _ONLY.value or name in _ONLY.value]
    if unknown := set(_ONLY.value) - set(STRANGERS):
        sys.exit(f"error: no such sets: {', '.join(sorted(unknown))}; there are {', '.join(STRANGERS)}")
    found = {name: _read(root / name) for name in names}
    fresh = [name for name in names if _AGAIN.value or not found[name] or found[name]["commit"] != commit]
    preload_without_tensorflow() if _WITHOUT_TRAINING.value else preload()
    _run_all(fresh, root, commit)
    results = [
        _read(root / name) or {"name": name, "outcome": "FAILS", "stage": "", "line": ""} for name in names
    ]
    columns = ("name", "ugly", "stage", "outcome", "line")
    print()
    show([{column: result.get(column, "") for column in columns} for result in results])
    counts = {
        outcome: sum(r["outcome"] == outcome for r in results) for outcome in ("works", "ends", "FAILS")
    }
    print(f"\n{len(results)} sets: " + ", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    return 1 if counts["FAILS"] else 0


if __name__ == "__main__":
    app.run(main)

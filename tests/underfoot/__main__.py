"""Changes datasets under real runs: each must end in one line, save nothing after it, and then go on.

  python -m tests.underfoot [--only=mapped,…] [--changes=shard_truncated,…] [--folder=build/underfoot]

Every kind of change, under every way of reading, and on the host of a data service. A run is stopped when it
has told its third log point, the dataset changes, and the run goes on until it ends. Then the dataset is
restored, and the same command goes on, to meet the next kind. After all kinds it must end with the bytes of a
run that nobody disturbed. Runs are forks of this process, which has imported TensorFlow; a truncated shard
also meets a new Python.
"""

import pathlib
import shutil
import sys
from collections.abc import Iterator, Sequence

from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
from tests.shared import forked
from tests.shared.preloaded import preload
from tests.underfoot import service, subjects, trial
from tests.underfoot.changes import CHANGES, changed
from tests.underfoot.subjects import Subject

_ONLY = flags.DEFINE_list("only", list(subjects.WAYS), "Ways of reading.")
_CHANGES = flags.DEFINE_list("changes", [], "Kinds of changes, with _ for spaces; empty: all.")
_GOES_ON = flags.DEFINE_boolean("goes_on", True, "Whether runs go on, with the restored dataset.")
_FOLDER = flags.DEFINE_string("folder", "build/underfoot", "DIRECTORY: of datasets and runs.")
_MAY_TAKE = 120.0  # seconds, of making a dataset


def main(argv: Sequence[str]) -> None:
    del argv
    preload()
    root = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(root, ignore_errors=True)
    count = failed = 0
    for name in _ONLY.value:
        for told, faults in _of_way(name, root / name):
            count, failed = count + 1, failed + bool(faults)
            print(f"{name:8} {told:32} {'; '.join(faults) or 'as promised'}", flush=True)
    print(f"{count} changes, {failed} not as promised")
    sys.exit(bool(failed))


def _of_way(name: str, folder: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """Each change with what is wrong with how the run ended."""
    forked.call(lambda: subjects.subject(name, folder), folder / "made", timeout=_MAY_TAKE)
    subject = subjects.subject(name, folder)
    if name == service.NAME:
        yield from service.trials(subject, folder)
    else:
        asked = [kind for kind in CHANGES if not _CHANGES.value or kind.replace(" ", "_") in _CHANGES.value]
        for kind in asked:
            yield kind, _faults(kind, subject, folder, folder / kind.replace(" ", "_"))
            if "truncated" in kind and not _CHANGES.value:
                told = f"{kind}, new Python"
                yield told, _faults(kind, subject, folder, folder / "new_python", afresh=True)
    if _GOES_ON.value:
        subject.publish()
        whole = trial.finished(subject, folder / "whole", folder / "whole-process")
        same = trial.finished(subject, folder / "run", folder / "last-process") == whole
        yield "then restored, to the end", [] if same else ["other bytes than those of an undisturbed run"]


def _faults(
    kind: str, subject: Subject, folder: pathlib.Path, process: pathlib.Path, *, afresh: bool = False
) -> list[str]:
    subject.publish()
    named: list[pathlib.Path] = []

    def change() -> None:
        named.append(changed(subject.directory, subject.other, CHANGES[kind]))

    try:
        ended = trial.disturbed(subject, folder / "run", process, change, afresh=afresh)
    except trial.TooLateError as error:
        return [f"it had ended before the change: {error}"]
    return ended.faults(str(named[-1]))


if __name__ == "__main__":
    app.run(main)

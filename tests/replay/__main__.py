"""Replays random steps of runs that were killed, spread over replicas and workers, and mixed.

  python -m tests.replay [--pairs=500] [--folder=DIR] [--short]

Each batch must be what its step received, bit for bit, as a hook inside the step recorded it. Then 30 rows
are poisoned, half of them so that the model computes NaN; each must be the first in the replay of its step.
Prints tables; the exit code is 1 where something is not as it must be. Eight minutes.
"""

import io
import pathlib
import random
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

from absl import app, flags, logging

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

from tests.replay import pairs, poisoned, runs, subjects
from tests.replay.runs import Trained
from tests.shared.table import show

_PAIRS = flags.DEFINE_integer("pairs", 500, "How many (run, step) are replayed.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of the choice of them, and of the steps in which runs are killed.")
_FOLDER = flags.DEFINE_string("folder", None, "DIR: keeps the runs there.")
_SHORT = flags.DEFINE_bool("short", False, "One run of 40 steps and 4 poisoned rows, whatever time it takes.")
_SLOWEST_S = 2.0  # of 95 in 100, after start-up
_LEAST_FOUND = 28 / 30
_SHORT_STEPS, _SHORT_POISONED = 40, {"rows": 1_600, "poisoned": 4}


def main(argv: Sequence[str]) -> int:
    del argv
    logging.set_verbosity(logging.ERROR)
    draw = random.Random(_SEED.value)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(_FOLDER.value or temporary).absolute()
        # These first, in forks: TensorFlow has computed nothing in this process yet.
        planted = poisoned.convert(folder / "poisoned", **(_SHORT_POISONED if _SHORT.value else {}))
        chosen = [subjects.SHORT] if _SHORT.value else subjects.SUBJECTS
        trained = {subject.name: _train(subject, folder, draw) for subject in chosen}
        is_exact = _replay(trained, draw)
        are_found = _find_poisoned(folder / "poisoned", planted)
    return 0 if is_exact and are_found else 1


def _train(subject: subjects.Subject, folder: pathlib.Path, draw: random.Random) -> Trained:
    print(f"training {subject.name}", flush=True)
    steps = _SHORT_STEPS if _SHORT.value else subjects.STEPS
    return runs.train(subject, folder / subject.name, draw, steps=steps)


def _replay(trained: dict[str, Trained], draw: random.Random) -> bool:
    replayed = pairs.replay_pairs(trained, pairs=_PAIRS.value, draw=draw)
    show(pairs.rows_of(replayed, trained))
    is_fast = _SHORT.value or pairs.p95_s(replayed) <= _SLOWEST_S
    return is_fast and all(pair.is_equal for pair in replayed)


def _find_poisoned(folder: pathlib.Path, planted: Mapping[poisoned.Key, poisoned.Planted]) -> bool:
    with redirect_stdout(io.StringIO()):
        found = poisoned.find(folder, planted)
    show([{**vars(each)} for each in found])
    first = sum(each.is_found for each in found)
    print(f"{first} of {len(found)} poisoned rows are the first of their step, with file and line")
    return first >= _LEAST_FOUND * len(found)


if __name__ == "__main__":
    app.run(main)

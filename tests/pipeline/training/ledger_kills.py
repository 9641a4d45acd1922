r"""Does the ledger of a run that was killed add up to the wall time that passed? Four minutes.

  python -m tests.pipeline.training.ledger_kills --kills=3 --seed=0

Trains in processes of their own, kills them with SIGKILL at random moments, and lets the last one finish. The
wall time is measured from outside: from just before a process is started until it is gone.
"""

import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from absl import app, flags

from pipeline.training.report.run import time_line
from pipeline.training.state import goodput
from pipeline.training.state.goodput import time_spent
from tests.pipeline.training.small_run import SCHEMA, rows
from tests.shared.tiny_dataset import write_dataset

_KILLS = flags.DEFINE_integer("kills", 3, "Processes that are killed before one may finish.", 0)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")
_STEPS = flags.DEFINE_integer("steps", 200_000, "Length of the run.", 1)

TOLERANCE = 0.01
_ROWS = {"train": 40_000, "validation": 1_000, "test": 1_001}  # a checkpoint every 1,000 steps
_EARLIEST_S, _LATEST_S = 6.0, 25.0  # after a process's start, which takes some seconds itself


def lived(command: Sequence[str], *, kill_after: float | None) -> float:
    """Seconds that a process lived; it is killed after so many, if it has not ended by then."""
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            code = process.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    elapsed = time.monotonic() - started
    print(f"a process lived {elapsed:.2f} s and ended with {code}", flush=True)
    return elapsed


def main(argv: Sequence[str]) -> int:
    del argv
    moments = random.Random(_SEED.value)
    with tempfile.TemporaryDirectory() as folder:
        splits = {name: rows(number, seed=number) for name, number in _ROWS.items()}
        dataset = write_dataset(pathlib.Path(folder) / "1.0.0", SCHEMA, splits, layout="blocks").directory
        workdir = pathlib.Path(folder) / "run"
        command = (
            *(sys.executable, "-m", "pipeline.train", "--config=pipeline/configs/tabular.py"),
            *(f"--dataset={dataset}", f"--workdir={workdir}", f"--config.train.steps={_STEPS.value}"),
            "--config.global_batch=16",
        )
        kills = [moments.uniform(_EARLIEST_S, _LATEST_S) for _ in range(_KILLS.value)]
        wall = [lived(command, kill_after=seconds) for seconds in (*kills, None)]
        lines = goodput.read_goodput(workdir / "ledger.jsonl")
    if any(seconds < moment for seconds, moment in zip(wall, kills, strict=False)):
        print("The run ended before it was killed so often: give more --steps.", file=sys.stderr)
        return 2
    spent = time_spent(lines)
    counted, lived_s = spent.wall_s, sum(wall)
    for process, seconds in zip(spent.processes, wall, strict=True):
        print(f"process {process.number}: wall {seconds:.2f} s, written {process.wall_s:.2f} s")
    print(time_line(lines))
    error = counted / lived_s - 1
    print(f"wall {lived_s:.2f} s, ledger {counted:.2f} s: {error:+.2%}, limit {TOLERANCE:.0%}")
    return abs(error) > TOLERANCE


if __name__ == "__main__":
    app.run(main)

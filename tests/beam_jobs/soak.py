"""Kills conversions (-9) at random moments, and runs each again on what it left.

  python -m tests.beam_jobs.soak [--kills=50] [--seed=0]

A killed run must leave no manifest over incomplete data; the run after it must give the bytes of an
undisturbed one. Every second run has two worker processes. About 15 s a kill on one free core.
"""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from absl import app, flags

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.schema import schema as schema_lib
from tests.beam_jobs.conftest import PEOPLE, ROOT, command, people_csv
from tests.beam_jobs.convert_test import TWO_PROCESSES, contents

_KILLS = flags.DEFINE_integer("kills", 50, "How many runs to kill.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of the moments.")

_ROWS = 20_000


def start(raw: pathlib.Path, output: pathlib.Path, *beam_flags: str) -> subprocess.Popen:
    convert = command("beam_jobs.convert", "--format=csv", "--shard_mib=1", f"--schema={raw / 'schema.json'}")
    # A session of its own, so that a kill reaches its workers, too.
    return subprocess.Popen(
        [*convert, f"--input={raw / 'people.csv'}", f"--output={output}", *beam_flags],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(raw: pathlib.Path, output: pathlib.Path) -> dict[str, bytes]:
    """What an undisturbed run leaves; ends the script if it fails."""
    process = start(raw, output)
    errors = process.communicate()[1]
    if process.returncode:
        sys.exit(f"a run that nobody disturbed failed:\n{errors}")
    return contents(output)


def kill(process: subprocess.Popen, *, everything: bool) -> None:
    if everything:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def main(argv: Sequence[str]) -> None:
    del argv
    moments = random.Random(_SEED.value)
    raw = pathlib.Path(tempfile.mkdtemp(prefix="penstock-soak-"))
    (raw / "people.csv").write_bytes(people_csv(_ROWS))
    schema_lib.save(PEOPLE, raw / "schema.json")
    lenient = schema_lib.dumps(PEOPLE).replace('"maximum": 150', '"maximum": 1000000')
    (raw / "schema.json").write_text(lenient)
    started = time.monotonic()
    whole = finish(raw, raw / "whole")
    seconds = time.monotonic() - started
    published = 0
    for number in range(_KILLS.value):
        output = raw / "killed"
        process = start(raw, output, *(TWO_PROCESSES if number % 2 else ()))
        moment = moments.uniform(0, 1.2 * seconds)
        time.sleep(moment)
        kill(process, everything=number % 4 < 2)
        left = len(list(output.rglob("*"))) if output.exists() else 0
        if (output / manifest_lib.FILE_NAME).exists():
            published += 1
            # Published before the kill: it must be whole, whatever of `_tmp` is left.
            again = {name: data for name, data in contents(output).items() if not name.startswith("_tmp")}
        else:
            again = finish(raw, output)
        if again != whole:
            sys.exit(
                f"kill {number} after {moment:.2f} s: the bytes differ; see {output} and {raw / 'whole'}"
            )
        print(
            f"kill {number + 1:>3} after {moment:5.2f} s: {left:>3} files left, then the same bytes",
            flush=True,
        )
        shutil.rmtree(output)
    shutil.rmtree(raw)
    print(f"{_KILLS.value} kills, {published} of them after publication: the same bytes every time")


if __name__ == "__main__":
    app.run(main)

"""Reads records of 30 KB and of 346 B as they are, with 10 ms a read, and with every hundredth read failing.

  python -m tests.slow_storage --scratch=build/slow

Exits with 1 where a rate is below its bound, the order is another, or no file of failing reads is named.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from tests.slow_storage import made

_SOURCE = pathlib.Path(__file__).with_name("slow_reads.c")
_BOUNDS = {"large": 5_000, "small": 100_000}  # records a second
_COMPARED = {"large": 5_000, "small": 250_000}  # records, more than two epochs
_SLOW = {"SLOW_US": "10000"}
CASES = {"as it is": {}, "10 ms a read": _SLOW, "and 1% fail": {**_SLOW, "SLOW_FAIL_EVERY": "100"}}


class Found(NamedTuple):
    """What a process printed."""

    figures: dict
    told: list[str]  # of failing reads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("build/slow"))
    scratch = parser.parse_args().scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    compiler = shutil.which("cc")
    if compiler is None:
        print("error: found no C compiler (cc): without one no reads are slowed", file=sys.stderr)
        return 2
    library = scratch / "slow_reads.so"
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"], check=True
    )
    problems = []
    print(f"{'':30} {'records/s':>10} {'bound':>9} {'CPU µs':>8} {'ms a read':>10} {'at once':>8}  order")
    for name, bound in _BOUNDS.items():
        directory = made.written(scratch, name)
        found = {case: _run(directory, library, name, settings) for case, settings in CASES.items()}
        digests = {each.figures["digest"] for each in found.values()}
        for case, each in found.items():
            figures = each.figures
            print(
                f"{name + ', ' + case:30} {figures['records/s']:10,.0f} {bound:9,} {figures['CPU µs']:8.1f} "
                f"{figures['ms']:10.3f} {figures['reads']:8,}  {'same' if len(digests) == 1 else 'ANOTHER'}"
            )
            if figures["records/s"] < bound:
                problems.append(f"{name}, {case}: slower than {bound:,} records a second")
        if len(digests) > 1:
            problems.append(f"{name}: the records or their order are not the same")
        told = found["and 1% fail"].told
        print("\n".join(told[:3]), f"… {len(told)} lines", sep="\n")
        if not told or any(found[case].told for case in ("as it is", "10 ms a read")):
            problems.append(f"{name}: reads that failed are not named, or others are")
    print("\n".join(problems) or "held")
    return int(bool(problems))


def _run(directory: pathlib.Path, library: pathlib.Path, name: str, settings: dict[str, str]) -> Found:
    slowed = {"LD_PRELOAD": str(library), "SLOW_FOLDER": str(directory), **settings}
    done = subprocess.run(
        [sys.executable, "-m", "tests.slow_storage.measured", str(directory), str(_COMPARED[name])],
        env={**os.environ, **slowed},
        check=True,
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stderr.splitlines() if re.search(r"a read failed.* at byte \d", line)]
    return Found(json.loads(done.stdout.splitlines()[-1]), told)


if __name__ == "__main__":
    sys.exit(main())

"""Puts faults of commit 56ca674 back into a copy of the code, one at a time: two tests must fail of each.

  python -m tests.planted [--only=WORD]

Prints a table; the exit code is 1 where a test passes with its fault, or fails of something else than a wrong
value. The tests must pass without any fault first. Five minutes.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

from tests.planted.fault import FAULTS, ROOT, Fault
from tests.shared.table import show

_ONLY = flags.DEFINE_string("only", "", "WORD: only faults whose name holds it.")
# Of a test that judged: not that a name is missing or a file cannot be read.
_JUDGED = re.compile(r" - (AssertionError|assert |Failed: DID NOT RAISE)")


def main(argv: Sequence[str]) -> int:
    del argv
    chosen = [fault for fault in FAULTS if _ONLY.value in fault.name]
    if not chosen:
        print(f"no fault's name holds {_ONLY.value!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        copy = pathlib.Path(temporary)
        _copy_code(copy)
        tests = sorted({test for fault in chosen for test in fault.tests})
        sound = _pytest(copy, tests)
        if sound.returncode:
            print(sound.stdout)
            return 1
        found = {fault: _failed(copy, fault) for fault in chosen}
    rows = [
        {"fault": fault.name, "test": test.split("::")[1], "with it": found[fault][test]}
        for fault in chosen
        for test in fault.tests
    ]
    show(rows)
    return 0 if all(row["with it"] == "fails" for row in rows) else 1


def _copy_code(folder: pathlib.Path) -> None:
    files = subprocess.run(
        ("git", "ls-files", "-co", "--exclude-standard"), cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in filter(lambda name: (ROOT / name).is_file(), files):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())


def _failed(copy: pathlib.Path, fault: Fault) -> dict[str, str]:
    """What became of each of the fault's tests, in words."""
    path = copy / fault.path
    before = path.read_text()
    path.write_text(fault.planted(before))
    try:
        printed = _pytest(copy, [*fault.tests, "-rf", "--tb=no"]).stdout
    finally:
        path.write_text(before)
    return {test: _word(test, printed) for test in fault.tests}


def _word(test: str, printed: str) -> str:
    """A test with parameters fails if one of its cases does."""
    lines = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR")) and test in line]
    if not lines:
        return "PASSES"
    return "fails" if any(_JUDGED.search(line) for line in lines) else f"BREAKS: {lines[0]}"


def _pytest(copy: pathlib.Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    # In a narrow terminal, pytest does not say why a test failed.
    environment = os.environ | {"COLUMNS": "1000"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    app.run(main)

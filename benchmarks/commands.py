"""What benchmarks do that type commands as a person would: running them, and a table of what was found."""

import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

from pipeline.base.errors import FailedError

_ROOT = pathlib.Path(__file__).parents[1]


def run_python(*arguments: str) -> None:
    """Runs `python ARGUMENTS` in the checkout; raises FailedError, with its last line, unless it succeeds."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise FailedError(
            f"python {' '.join(arguments)}",
            received=(done.stderr.strip().splitlines() or ["nothing"])[-1],
            expected="a command that succeeds",
            action="Run it by itself.",
        )


def markdown(found: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> str:
    """A table with a row for each name; numbers that it lacks are left empty."""
    lines = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, numbers in found.items():
        each = (f"{numbers[key]:.4f}" if key in numbers else "" for key in columns)
        lines.append(f"| {name} | {' | '.join(each)} |")
    return "\n".join(lines)

"""What benchmarks do that type commands as a person would: running them, and a table of what was found."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from pipeline.base.errors import FailedError

_ROOT = pathlib.Path(__file__).parents[1]


def run_python(*arguments: str, timeout_s: float | None = None, allowed: Sequence[int] = (0,)) -> str:
    """Runs `python ARGUMENTS` in the checkout; returns what it prints.

    Args:
      timeout_s: seconds after which it is killed, with the processes that it has started.
      allowed: exit codes that mean no failure.

    Raises:
      FailedError: it ends with another code, whose last line is named, or it is killed.
    """
    process = start_python(*arguments)
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise _failed(arguments, f"no answer within {timeout_s:.0f} s") from None
    finally:
        end(process)
    if process.returncode not in allowed:
        raise _failed(arguments, (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    return output


def start_python(*arguments: str) -> subprocess.Popen:
    """Starts `python ARGUMENTS` in the checkout, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=_ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def end(process: subprocess.Popen) -> None:
    """Kills the processes of its session that still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _failed(arguments: Sequence[str], received: str) -> FailedError:
    return FailedError(
        f"python {' '.join(arguments)}",
        received=received,
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

"""Runs the steps of a case, and says what is wrong with how each ended."""

import pathlib
import shutil
from collections.abc import Iterator

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.fuzz import reader
from tests.fuzz.case import READ, Case, Sound
from tests.shared import forked
from tests.shared.forked import Ended

MEMORY_MIB = 1_000_000_000 / (1 << 20)  # 1 GB
_SECONDS = 60
_GUARD_MIB = 3 << 10  # 3 GiB: a case must not take the machine with it


def run(case: Case, folder: pathlib.Path, sound: Sound) -> Iterator[dict]:
    """One result a step: what is wrong with it (empty: nothing), its exit code, time and memory."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.write(folder, sound)
    for arguments in case.steps(folder, sound):
        ended = _ended(arguments, folder)
        yield {
            "case": case.name,
            "step": arguments[0],
            "problem": problem(ended),
            "line": (ended.error_lines or [""])[-1],
            "code": ended.code,
            "seconds": round(ended.seconds, 2),
            "peak_mib": round(ended.peak_mib),
        }
    shutil.rmtree(folder, ignore_errors=True)


def _ended(arguments: tuple[str, ...], folder: pathlib.Path) -> Ended:
    output = folder / "output" / arguments[0]
    if arguments[0] != READ:
        return forked.command(arguments, output, timeout=_limit(), memory_mib=_GUARD_MIB)

    def body() -> None:
        raise SystemExit(reader.read(arguments[1]))

    return forked.call(body, output, timeout=_limit(), memory_mib=_GUARD_MIB)


def _limit() -> float:
    return 3 * _SECONDS  # the clock runs on where the processor is shared; `problem` counts its time


def problem(ended: Ended) -> str:
    """What is wrong with how a step ended; empty if nothing is."""
    if ended.timed_out or ended.cpu_seconds > _SECONDS:
        return f"took more than {_SECONDS} s"
    if ended.peak_mib > MEMORY_MIB:
        return f"took {ended.peak_mib:,.0f} MiB"
    if ended.code not in (0, EXIT_BAD_INPUT):
        return f"exit code {ended.code}"
    if "Traceback (most recent" in ended.stderr:
        return "a traceback"
    lines = ended.error_lines
    if ended.code == EXIT_BAD_INPUT and lines and len(lines) != 1:
        return f"{len(lines)} lines"
    if ended.code == EXIT_BAD_INPUT and not lines and not ended.stdout:
        return "not a line"
    return ""

"""Sends a signal to a running command, and tells how it ended and what it left."""

import dataclasses
import os
import pathlib
import signal
import time
from collections.abc import Iterator

from tests.shared import forked
from tests.signals import processes, started
from tests.signals.cases import Case

SECONDS_TO_END = 10.0
_SECONDS_TO_WAIT = 30.0  # then it is killed
_SECONDS_BETWEEN_LOOKS = 0.03


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    seconds: float  # from the signal to the end
    code: int
    lines: tuple[str, ...]  # of stderr
    processes: tuple[int, ...]  # that live on
    files: tuple[str, ...]  # that should not be there

    def faults(self, number: signal.Signals) -> list[str]:
        """What is wrong with how the command ended."""
        found = []
        if self.seconds > SECONDS_TO_END:
            found.append(f"took {self.seconds:.1f} s")
        if self.code != 128 + number:
            found.append(f"exit code {self.code}")
        if len(self.lines) != 1 or not self.lines[0].startswith("interrupted: "):
            found.append(f"{len(self.lines)} lines: {' | '.join(self.lines[:3])[:300]}")
        if self.processes:
            found.append(f"{len(self.processes)} processes live on")
        if self.files:
            found.append(f"left {', '.join(self.files[:4])}")
        return found


def disturbed(
    case: Case, folder: pathlib.Path, number: signal.Signals, cpu_seconds: float, *, afresh: bool
) -> Ended | None:
    """How the command ended that got a signal after it had worked so long; None if it was faster."""
    (folder / "out").mkdir(parents=True)
    pid = started.start(case.writing_to(folder / "out" / "result"), folder, afresh=afresh)
    if not _works_for(pid, cpu_seconds):
        os.waitpid(pid, 0)
        return None
    sent = time.monotonic()
    _send(pid, number)
    forked.ends_within(pid, _SECONDS_TO_WAIT)
    took = time.monotonic() - sent
    living = processes.alive_after_a_second(pid)
    for each in living:
        os.kill(each, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == 0:
        return None
    return Ended(
        seconds=took,
        code=code,
        lines=tuple((folder / "stderr").read_text().splitlines()),
        processes=tuple(living),
        files=tuple(_left(case, folder)),
    )


def _works_for(pid: int, cpu_seconds: float) -> bool:
    """Whether it takes so much time of the processor, which a busy machine does not stretch.

    Counted from when it handles signals: earlier, one ends it as it ends every Python program.
    """
    while not processes.catches(pid, started.SIGNALS):
        if forked.ends_within(pid, 0.002):
            return False
    before = processes.cpu_seconds(pid)
    while processes.cpu_seconds(pid) - before < cpu_seconds:
        if forked.ends_within(pid, _SECONDS_BETWEEN_LOOKS):
            return False
    return True


def _send(pid: int, number: signal.Signals) -> None:
    """A terminal sends Ctrl-C to all processes that run in it; the others go to the launcher alone."""
    if number == signal.SIGINT:
        os.killpg(pid, number)
    else:
        os.kill(pid, number)


def _left(case: Case, folder: pathlib.Path) -> Iterator[str]:
    """Files that neither are results nor are kept for the next run."""
    yield from (str(path.relative_to(folder)) for path in (folder / "temporary").rglob("*"))
    result = folder / "out" / "result"
    is_published = case.has_published(result)
    for path in (folder / "out").rglob("*"):
        is_result = path == result or result in path.parents
        half_written = path.name.startswith("_tmp") or path.name.endswith(".tmp")
        if half_written or not is_result or not (case.goes_on or is_published):
            yield str(path.relative_to(folder))

"""Sends a signal to a running command, and tells how it ended and what it left."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator

from tests.beam_jobs.conftest import ROOT, command
from tests.signals.cases import Case

SECONDS_TO_END = 10.0
_SECONDS_TO_WAIT = 30.0  # then it is killed
_SESSION = 3  # field of /proc/<pid>/stat after the command's name


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


def disturbed(case: Case, folder: pathlib.Path, number: signal.Signals, seconds: float) -> Ended | float:
    """How the command ended that got a signal after so many seconds; how long it took if it was faster."""
    temporary = folder / "temporary"
    for directory in (temporary, folder / "out"):
        directory.mkdir(parents=True)
    module, *arguments = case.arguments
    with (folder / "stderr").open("w") as err, (folder / "stdout").open("w") as out:
        process = subprocess.Popen(
            command(module, *arguments, f"{case.output}={folder / 'out' / 'result'}"),
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(temporary)},
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    _wait_for_handler(process)
    started = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return time.monotonic() - started
    sent = time.monotonic()
    _send(process, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_WAIT)
    took = time.monotonic() - sent
    if process.returncode == 0:
        return seconds
    living = _alive_after_a_second(process.pid)
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    return Ended(
        seconds=took,
        code=process.returncode,
        lines=tuple((folder / "stderr").read_text().splitlines()),
        processes=tuple(living),
        files=tuple(_left(case, folder)),
    )


def _wait_for_handler(process: subprocess.Popen) -> None:
    """Until Python has started: before, a signal ends it as it ends every Python program."""
    while process.poll() is None and not _has_pipe(process.pid):
        time.sleep(0.005)


def _has_pipe(pid: int) -> bool:
    """Whether it has opened a pipe beside its three streams: the wake-up descriptor is the first one."""
    try:
        opened = list(pathlib.Path(f"/proc/{pid}/fd").iterdir())
        return any(str(path.readlink()).startswith("pipe:") for path in opened if int(path.name) > 2)
    except OSError:  # it has ended, or closed one of them, in the meantime
        return False


def _send(process: subprocess.Popen, number: signal.Signals) -> None:
    """A terminal sends Ctrl-C to all processes that run in it; the others go to the launcher alone."""
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def _alive_after_a_second(leader: int) -> list[int]:
    for _ in range(10):
        if not (living := _session(leader)):
            break
        time.sleep(0.1)
    return living


def _session(leader: int) -> list[int]:
    """The processes of a session that are alive."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended in the meantime
            continue
        if fields[0] != "Z" and int(fields[_SESSION]) == leader:
            found.append(int(stat.parent.name))
    return found


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

"""Commands under a limit of their address space: each ends well or in one line, without a verdict."""

import dataclasses
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from pipeline.base.errors import EXIT_TRY_AGAIN
from tests.shared import small_spans
from tests.soak import commands
from tests.soak.commands import Command
from tests.soak.harness import ROOT, Soak

_GB = (0.3, 5.0)  # training reserves 3.1
_SURE_GB = (0.7, 1.0, 1.4, 1.6, 2.0)  # tried first
_MAY_HANG = 60.0  # seconds of no work of the processor
_RECONCILE = ("pipeline.retrain", "reconcile", "--config=tests/shared/small_retraining.py")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LimitedCase:
    """A command that gets less and less, and more and more, of address space."""

    command: Command

    @property
    def name(self) -> str:
        return f"memory_{self.command.name}"

    sentence = "Limits the address space of a command: it ends well, or in one line with exit code 75."

    def faults(self, soak: Soak) -> Iterator[str]:
        made = soak.folder / "made"
        commands.make(made, before=self.command.name, rows=400)
        for limit in limits(soak):
            out = soak.folder / f"out_{limit:.3f}"
            code, stderr = limited(self.command.writing_to(made, out), limit)
            yield from (f"{limit:.2f} GB: {fault}" for fault in ended_badly(code, stderr))
            if code and self.command.has_published(out):
                yield f"{limit:.2f} GB: it published, and ended with {code}"


def reconcile(soak: Soak) -> Iterator[str]:
    """A night under each limit; no span may be written down as unusable."""
    for limit in limits(soak):
        root = soak.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        small_spans.write_schema(root)
        for number in range(2):
            small_spans.write_span(root, number)
        code, stderr = limited([*_RECONCILE, f"--root={root}"], limit)
        yield from (f"{limit:.2f} GB: {fault}" for fault in ended_badly(code, stderr))
        for path in (root / "spans").glob("*/*.json"):
            if json.loads(path.read_text())["unusable"]:
                yield f"{limit:.2f} GB: {path.parent.name} is unusable: {path.read_text()[:300]}"
        yield from (f"{limit:.2f} GB: {path}" for path in (root / "cycles").glob("*/failed.json"))


def limits(soak: Soak) -> Iterator[float]:
    draw = soak.draw("limits")
    yield from _SURE_GB[: soak.count]
    for _ in range(soak.count - len(_SURE_GB)):
        yield draw.uniform(*_GB)


def ended_badly(code: int | None, stderr: str) -> Iterator[str]:
    lines = stderr.splitlines()
    if code is None:
        yield f"it hung: {stderr[-300:]}"
    elif code not in (0, EXIT_TRY_AGAIN) or (code and len(lines) != 1) or "Traceback" in stderr:
        yield f"exit code {code}, {len(lines)} lines: {' | '.join(lines)[:600]}"


def limited(arguments: Sequence[str], gigabytes: float) -> tuple[int | None, str]:
    """Exit code and stderr of `python -m` with the arguments; None where it hangs."""
    bound = int(gigabytes * 1e9)
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bound, bound)),
    )
    worked, since = -1.0, time.monotonic()
    while True:
        try:
            _, stderr = process.communicate(timeout=1.0)
            return process.returncode, stderr
        except subprocess.TimeoutExpired:
            now = _worked(process.pid)
            worked, since = (now, time.monotonic()) if now > worked + 0.05 else (worked, since)
            if time.monotonic() - since > _MAY_HANG:
                process.kill()
                return None, process.communicate()[1]


def _worked(pid: int) -> float:
    """Clock ticks of the process and its children that have not ended."""
    found = 0.0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text().rpartition(")")
        except OSError:  # it has ended
            continue
        fields = rest.split()
        if int(head.split()[0]) == pid or int(fields[1]) == pid:
            found += sum(map(int, fields[11:15]))
    return found


CASES = tuple(LimitedCase(command=command) for command in commands.COMMANDS)

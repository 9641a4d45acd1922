"""`kill -9` of one of the workers that a launcher started, at moments of their life."""

import os
import pathlib
import signal
import time
from collections.abc import Iterator, Sequence

from pipeline.training.launch import workers as workers_lib
from tests.shared import forked
from tests.workers import elastic
from tests.workers.member import MOMENTS, environment

_MOST_SECONDS = 30.0
_MAY_TAKE = 600.0
_OF_MORE = ("joining", "step")  # of more than two workers
_KILLED = 128 + signal.SIGKILL


def check(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """What is wrong with how jobs of several workers end; those of more than two die in two moments."""
    for count in (count for count in counts if count > 1):
        for moment in MOMENTS if count == 2 else _OF_MORE:
            for victim in (0, count - 1):
                yield from _of_one(dataset, folder, moment=moment, victim=victim, count=count)


def _of_one(
    dataset: pathlib.Path, folder: pathlib.Path, *, moment: str, victim: int, count: int
) -> Iterator[str]:
    name, place = f"worker {victim} of {count} at {moment}", folder / f"{moment}{victim}of{count}"
    ended = forked.call(
        lambda: _killed(dataset, place, moment=moment, victim=victim, count=count),
        place / "output",
        timeout=_MAY_TAKE,
    )
    told = ended.stdout.splitlines()
    print(f"kills: {name}: {told[-1] if told else 'nothing'}", flush=True)
    yield from (f"kills: {name}: {each}" for each in _faults(ended, victim))


def _faults(ended: forked.Ended, victim: int) -> Iterator[str]:
    seconds = ended.stdout.split()[-2:-1]
    if ended.code != _KILLED or not seconds:
        yield f"exit code {ended.code}: {ended.stderr[-600:]}"
    elif float(seconds[0]) > _MOST_SECONDS:
        yield f"took {seconds[0]} s"
    lines = ended.error_lines
    if len(lines) != 1 or not lines[0].startswith(f"error: worker {victim} (process "):
        yield f"told {lines}"


def _killed(dataset: pathlib.Path, place: pathlib.Path, *, moment: str, victim: int, count: int) -> None:
    """Trains until the moment, kills the victim, and prints how long the others lived on."""
    tells, began = place / "moment", []
    os.environ.update(environment(moment, tells))
    workers_lib._MEMBER = "tests.workers.member"
    case = elastic.case(dataset, count)
    with workers_lib.running_workers(
        count, ("pipeline.train", *case.arguments, f"--workdir={place / 'run'}")
    ) as workers:

        def kill_there() -> int:
            if tells.exists() and not began:
                workers[victim].send(signal.SIGKILL)
                began.append(time.monotonic())
            return 0

        code = workers_lib.Watch(workers, came=kill_there).to_the_end()
        left = [worker.pid for worker in workers if pathlib.Path(f"/proc/{worker.pid}/exe").exists()]
    seconds = time.monotonic() - began[0] if began else float("nan")
    print(f"exit code {code}, {len(left)} processes left, after {seconds:.1f} s", flush=True)
    raise SystemExit(code if not left else 1)

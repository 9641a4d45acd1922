r"""Kills processes at random moments and lets them go on; the end must be that of an undisturbed run.

  python -m tests.soak.kill --list
  python -m tests.soak.kill --cases=convert,train_table* --kills=20 --seed=1

Signals are SIGKILL and, where a command answers them, SIGINT, SIGTERM and SIGHUP: then it has to end within
10 s, in one line, with the signal's exit code, and leave no process and nothing half done. Processes are
forks of this one, which has imported TensorFlow and computed nothing; every tenth command is a new Python.
"""

import collections
import dataclasses
import functools
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from absl import flags

from tests.shared import forked
from tests.shared.preloaded import preload
from tests.soak import harness, hooks, processes
from tests.soak.case import Case, Ended, Generation, Moment
from tests.soak.harness import Row, Soak

_MAY_TAKE = 900.0  # seconds, of what nobody disturbs, on a machine that others use too
_PEERS_END_IN = 60.0
_MOST_GENERATIONS = 200
_AFRESH = 10  # one in so many is a new Python, for signals during imports and at the very end
_COARSE, _FINE = 0.01, 0.002  # seconds between looks


def rows() -> list[Row]:
    """All that is killed; some rows are no story, and have a way of their own."""
    from tests.soak import kill_commands, kill_publishing, kill_retraining, kill_training, kill_workers

    families = (kill_commands, kill_training, kill_workers, kill_publishing, kill_retraining)
    cases = [case for family in families for case in family.CASES]
    stories = [
        Row(name=case.name, sentence=case.sentence, faults=functools.partial(faults, case), lacks=case.lacks)
        for case in cases
    ]
    return [*stories, *kill_publishing.ROWS]


def faults(case: Case, soak: Soak) -> Iterator[str]:
    """Runs stories of the case until it got its signals; what is wrong with how they ended."""
    made = soak.folder / "made"
    done = forked.call(lambda: case.make(made, soak), soak.folder / "make", timeout=_MAY_TAKE)
    if done.code:
        yield f"it could not be prepared: {done.stderr[-600:]}"
        return
    with case.running(soak):
        whole = Story(case=case, made=made, folder=soak.folder / "whole", draw=soak.draw("whole"))
        yield from whole.run(())
        if whole.broken:
            return
        hits: collections.Counter = collections.Counter()
        tries = 0
        while sum(hits.values()) < soak.count and tries < harness.TRIES * soak.count:
            tries += 1
            draw = soak.draw(tries)
            left = min(draw.randint(1, case.each), soak.count - sum(hits.values()))
            numbers = [draw.choice(case.signals) for _ in range(left)]
            story = Story(case=case, made=made, folder=soak.folder / f"story-{tries}", draw=draw, whole=whole)
            found = [*story.run(numbers)]
            hits.update(story.hits)
            yield from (f"story {tries}: {fault}" for fault in found)
            if len(found) > harness.TRIES:
                return
            if not found:
                shutil.rmtree(story.folder)
    summary = ", ".join(f"{count} × {signal.Signals(number).name}" for number, count in sorted(hits.items()))
    print(f"{case.name}: {summary or 'no signal came in time'} in {tries} stories", flush=True)
    if not hits:
        yield "every process was faster than its signal"


@dataclasses.dataclass(kw_only=True)
class Story:
    """Processes one after the other, until one ends well; all but the last are sent signals."""

    case: Case
    made: pathlib.Path
    folder: pathlib.Path
    draw: random.Random
    whole: "Story | None" = None
    cpu_seconds: float = 0.0  # of the last process
    broken: bool = False
    hits: list[int] = dataclasses.field(default_factory=list)

    def run(self, numbers: Sequence[signal.Signals]) -> Iterator[str]:
        """What is wrong with how processes end, and with the end of the story."""
        self.folder.mkdir(parents=True)
        for count in range(_MOST_GENERATIONS):
            moment = self._moment(numbers[len(self.hits)]) if len(self.hits) < len(numbers) else None
            generation = Generation(
                number=count,
                moment=moment,
                afresh=bool(moment) and self.draw.randrange(_AFRESH) == 0,
                folder=self.folder / "processes" / str(count),
                story=self.folder,
                made=self.made,
            )
            ended = _run(self.case, generation)
            found = [*self.case.faults_of(generation, ended)]
            yield from (f"{moment or 'undisturbed'}: {fault}" for fault in found)
            self.cpu_seconds = ended.seconds if self.case.by_wall else ended.cpu_seconds
            if moment and ended.was_hit:
                self.hits.append(moment.number)
                print(f"  {self.case.name} {moment}: {'; '.join(found) or 'ok'}", flush=True)
            self.broken = self.broken or bool(found)
            if self.broken or self._is_over(ended):
                break
        if not self.broken:
            yield from self._differences()

    def _is_over(self, ended: Ended) -> bool:
        if ended.was_hit:
            return self.case.is_done(self.folder)
        return ended.code != self.case.again and not self.case.has_more(self.folder)

    def _moment(self, number: signal.Signals) -> Moment:
        return self.case.moment(self.draw, number, cpu_seconds=self.whole.cpu_seconds, story=self.folder)

    def _differences(self) -> Iterator[str]:
        yield from self.case.end_faults(self.made, self.folder)
        if self.whole:
            found, wanted = (self.case.state(self.made, one.folder) for one in (self, self.whole))
            for name in sorted({*found, *wanted}):
                if found.get(name) != wanted.get(name):
                    what = f"{found.get(name)!s:.200} in place of {wanted.get(name)!s:.200}"
                    yield f"{name} is another than undisturbed: {what}"


def _run(case: Case, generation: Generation) -> Ended:
    """Starts what works together, sends the signal at its moment, and waits for the end of all."""
    moment = generation.moment
    pids = [
        forked.start(functools.partial(_work, body, number, moment), generation.folder / str(number))
        for number, body in enumerate(case.bodies(generation))
    ]
    first = moment.process if moment and moment.process < len(pids) else 0
    sent = time.monotonic()
    if moment and moment.cpu_seconds is not None:
        sent = _send(case, pids[first], moment) or sent
    ends = _ends(pids, first)
    seconds = time.monotonic() - sent
    living = [each for pid in pids for each in processes.alive_after_a_second(pid)]
    for each in living:
        os.kill(each, signal.SIGKILL)
    code, others = ends[first].code, {end.code for end in ends}
    return Ended(
        code=code if others <= {code, *case.peers_end_with} else 1,
        was_hit=bool(moment) and code not in (0, case.again),
        seconds=seconds,
        cpu_seconds=ends[first].cpu_seconds,
        stdout=_streams(generation, "stdout"),
        stderr=_streams(generation, "stderr"),
        living=tuple(living),
    )


def _streams(generation: Generation, name: str) -> str:
    return "".join(path.read_text(errors="replace") for path in sorted(generation.folder.glob(f"*/{name}")))


def _work(body: Callable[[], None], number: int, moment: Moment | None) -> None:
    if moment and moment.place and moment.process == number:
        hooks.send_at(moment)
    body()


def _send(case: Case, pid: int, moment: Moment) -> float | None:
    """Sends the signal when the processes have worked so long; None if they were faster."""
    while case.waits_for_handlers and not processes.catches(pid, processes.ANSWERED):
        if forked.ends_within(pid, _FINE):
            return None
    worked = (lambda _: time.monotonic()) if case.by_wall else processes.cpu_seconds
    before = worked(pid)
    look = _FINE if moment.cpu_seconds < 1 else _COARSE
    while worked(pid) - before < moment.cpu_seconds:
        if forked.ends_within(pid, look):
            return None
    target = case.victim(pid, moment)
    if target is None:
        return None
    if moment.to_all:
        os.killpg(target, moment.number)
    else:
        os.kill(target, moment.number)
    return time.monotonic()


class _End(NamedTuple):
    code: int  # 1 of a process that took too long, and was killed
    cpu_seconds: float


def _ends(pids: Sequence[int], first: int) -> list[_End]:
    """How each ended, the one that gets the signal first."""
    found = {}
    for number in (first, *(number for number in range(len(pids)) if number != first)):
        lost = bool(found) and found[first].code == -signal.SIGKILL
        if lost:  # a machine is lost as a whole; that peers end by themselves, others test
            os.killpg(pids[number], signal.SIGKILL)
        timed_out = not forked.ends_within(pids[number], _PEERS_END_IN if found else _MAY_TAKE)
        if timed_out:
            os.killpg(pids[number], signal.SIGKILL)
        _, status, usage = os.wait4(pids[number], 0)
        code = 1 if timed_out else os.waitstatus_to_exitcode(status)
        found[number] = _End(code=code, cpu_seconds=usage.ru_utime + usage.ru_stime)
    return [found[number] for number in range(len(pids))]


if __name__ == "__main__":
    flags.DEFINE_integer("kills", 20, "Signals that each case gets.", 1)
    harness.run(rows, preload=preload, times=lambda: flags.FLAGS.kills)

"""One run that is sent signals, each time continued, and compared with the undisturbed one in the end."""

import dataclasses
import pathlib
import random
import signal
from collections.abc import Iterator, Sequence

from tests.soak import lineage, runs
from tests.soak.hooks import PHASES, Plan
from tests.soak.lineage import Steps
from tests.soak.runs import Case, Process

_NONE = lineage.Difference(lost=0, repeated=0, elsewhere=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hit:
    """A signal that ended a process of the run."""

    number: signal.Signals
    in_save: bool
    past_epoch: bool  # after a step that is not of the first epoch


@dataclasses.dataclass(frozen=True, kw_only=True)
class Disturbed:
    case: Case
    whole: Process  # the undisturbed run
    folder: pathlib.Path
    draw: random.Random
    generations: list[Steps] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    hits: list[Hit] = dataclasses.field(default_factory=list)

    def send(self, numbers: Sequence[signal.Signals]) -> None:
        """Runs the command until it ends well, at first with a signal each time."""
        while not self.problems:
            plan = self._plan(numbers[len(self.hits)]) if len(self.hits) < len(numbers) else None
            process = runs.run(self.case, self.folder / "run", self._processes / str(self._count), plan)
            self.generations.append(process.steps)
            steps = f"steps {min(process.steps)}–{max(process.steps)}" if process.steps else "no step"
            print(f"  {self.case.name} {plan or 'to the end'}: exit code {process.code}, {steps}", flush=True)
            if process.code and not (plan and runs.is_as_planned(process, plan)):
                self.problems.append(f"{plan}: exit code {process.code}: {process.stderr.strip()[-600:]}")
            if not process.code:
                break
            if plan:
                self.hits.append(self._hit(plan, process))

    def faults(self) -> Iterator[str]:
        """What is wrong with the run, and with what it left."""
        yield from self.problems
        if self.problems:
            return
        found, wanted = runs.contents(self.folder / "run"), runs.contents(self.folder.parent / "whole")
        yield from (
            f"{name} is another than undisturbed" for name in wanted if found.get(name) != wanted[name]
        )
        difference = lineage.difference(lineage.of_weights(self.generations), self.whole.steps)
        print(f"  {self.case.name}: {difference.lost} lost, {difference.repeated} repeated", flush=True)
        if difference != _NONE:
            yield str(difference)

    @property
    def _processes(self) -> pathlib.Path:
        return self.folder / "processes"

    @property
    def _count(self) -> int:
        return len(self.generations)

    def _hit(self, plan: Plan, process: Process) -> Hit:
        last = max(process.steps, default=0)
        return Hit(number=plan.number, in_save=bool(plan.phase), past_epoch=last >= self.case.epoch)

    def _plan(self, number: signal.Signals) -> Plan:
        """A third falls anywhere, a third into a save, a third just behind the end of an epoch or a save."""
        newest, steps = runs.newest(self.folder / "run"), len(self.whole.steps)
        kind = self.draw.choice(["anywhere", "save", "step"])
        if kind == "save":  # the first worker alone saves
            return Plan(number=number, phase=self.draw.choice(PHASES), call=self.draw.randrange(3))
        # A machine that is lost takes its run with it; a machine that is asked to stop stops all.
        worker = self.draw.randrange(self.case.workers) if number == signal.SIGTERM else 0
        if kind == "step":
            end = int(self.case.epoch)
            first = end if newest < end else newest
            step = min(first + self.draw.randrange(1, 8), steps - 1)
            return Plan(number=number, worker=worker, step=step)
        most = self.whole.cpu_seconds * (0.3 + 0.6 * (1 - newest / steps))
        return Plan(number=number, worker=worker, cpu_seconds=self.draw.uniform(0, most))

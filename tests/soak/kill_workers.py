"""Workers of a launcher, one of which is killed: all end soon, in one line that names it, and go on."""

import dataclasses
import pathlib
import random
import signal
from collections.abc import Callable, Iterator, Sequence

from pipeline.base.errors import EXIT_TRY_AGAIN
from tests.shared import forked
from tests.shared.small_run import write_small_dataset
from tests.soak import commands, processes
from tests.soak.case import KILL, Case, Ended, Generation, Moment
from tests.soak.harness import Soak
from tests.soak.kill_commands import CommandCase

_MOST_SECONDS = 30.0
_KILLED = 128 + signal.SIGKILL


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkersCase(Case):
    """`pipeline.train --workers=N`, of whose workers one is killed."""

    workers: int
    each: int = 2
    waits_for_handlers: bool = True

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        write_small_dataset(made / "dataset")

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        arguments = (
            *(
                "pipeline.train",
                "--config=tests/soak/training_config.py:elastic",
                f"--workers={self.workers}",
            ),
            *(f"--dataset={generation.made / 'dataset'}", f"--workdir={generation.story / 'run'}"),
            "--precision=float32",
        )
        return [lambda: forked.run_module(arguments)]

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        after = draw.uniform(0, 0.9 * cpu_seconds)
        return Moment(number=number, cpu_seconds=after, process=draw.randrange(self.workers))

    def victim(self, pid: int, moment: Moment) -> int | None:
        return processes.worker(pid, moment.process)

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        if not ended.was_hit:
            yield from super().faults_of(generation, ended)
            return
        if ended.code != _KILLED:
            yield f"exit code {ended.code}: {ended.stderr.strip()[-600:]}"
        if ended.seconds > _MOST_SECONDS:
            yield f"took {ended.seconds:.1f} s"
        lines = ended.stderr.splitlines()
        if len(lines) != 1 or not lines[0].startswith(f"error: worker {generation.moment.process} (process "):
            yield f"printed {' | '.join(lines)[:600]}"
        if ended.living:
            yield f"{len(ended.living)} processes live on"

    def end_faults(self, made: pathlib.Path, story: pathlib.Path) -> Iterator[str]:
        if not (story / "run" / "evaluation.json").exists():
            yield "the run that went on has no evaluation"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamWorkersCase(CommandCase):
    """A command in two worker processes of Beam, of which one is killed."""

    signals: tuple[signal.Signals, ...] = KILL

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        return Moment(number=number, cpu_seconds=draw.uniform(0, cpu_seconds), process=draw.randrange(2))

    def victim(self, pid: int, moment: Moment) -> int | None:
        found = processes.beam_workers(pid)
        return found[moment.process % len(found)] if found else None

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        if not ended.was_hit:
            yield from Case.faults_of(self, generation, ended)
            return
        lines = ended.stderr.splitlines()
        if ended.code != EXIT_TRY_AGAIN or len(lines) != 1 or "a worker process died" not in lines[0]:
            yield f"exit code {ended.code}: {' | '.join(lines)[:600]}"
        if ended.seconds > _MOST_SECONDS:
            yield f"took {ended.seconds:.1f} s"
        if ended.living:
            yield f"{len(ended.living)} processes live on"
        if left := [*self._left(generation, with_result=True)]:
            yield f"left {', '.join(left[:4])}"


BEAM_CASES = tuple(
    BeamWorkersCase(
        name=f"beam_worker_of_{command.name}",
        sentence="Kills a worker process of Beam: the command ends in 30 s, in one line, and runs again.",
        command=command,
    )
    for command in commands.COMMANDS
    if command.arguments[-2:] == commands.TWO_PROCESSES
)
TRAINING_CASES = tuple(
    WorkersCase(
        name=f"workers_{workers}",
        sentence=f"Kills one of {workers} workers of a launcher: all end in 30 s, in one line that names it.",
        workers=workers,
    )
    for workers in (2, 3, 4)
)
CASES = (*TRAINING_CASES, *BEAM_CASES)

"""What a case of `kill` is: what it works on, which processes do it, and what no kill may change."""

import contextlib
import dataclasses
import pathlib
import random
import signal
from collections.abc import Callable, Iterator, Sequence

from tests.soak.harness import Soak

SECONDS_TO_END = 10.0
KILL = (signal.SIGKILL,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """When a signal comes: after so much work, or where a process sends it to itself."""

    number: signal.Signals
    cpu_seconds: float | None = None  # of the clock, where the case says so
    place: str = ""  # such as "before MODULE:NAME": see hooks.py
    call: int = 0  # at this call of the place, from 0
    step: int | None = None  # of training, before it computes
    process: int = 0  # which of those that work together
    to_all: bool = False  # of its session, as a terminal sends Ctrl-C

    def __str__(self) -> str:
        to = f" to process {self.process}" if self.process else ""
        return f"{self.number.name}{to} {self._when}"

    @property
    def _when(self) -> str:
        if self.cpu_seconds is not None:
            return f"after {self.cpu_seconds:.2f} s"
        return f"{self.place}, call {self.call}" if self.place else f"in step {self.step}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Generation:
    """The processes of a story that work at the same time."""

    number: int  # in the story, from 0
    moment: Moment | None
    afresh: bool  # as a new Python
    folder: pathlib.Path  # their streams and records
    story: pathlib.Path  # what they leave to the next
    made: pathlib.Path


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """How the processes of a generation ended; `code` is 1 where they ended differently."""

    code: int
    was_hit: bool
    seconds: float  # since the signal
    cpu_seconds: float
    stdout: str
    stderr: str
    living: tuple[int, ...]  # processes that should have ended


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """The defaults are those of a process that answers no signal and leaves one directory."""

    name: str
    sentence: str
    signals: tuple[signal.Signals, ...] = KILL
    each: int = 3  # signals of a story at most
    reach: float = 1.0  # signals come within this part of an undisturbed process
    again: int | None = None  # an exit code that says: try again
    by_wall: bool = False  # moments are seconds of the clock, in place of the processor's
    waits_for_handlers: bool = False  # earlier a signal ends it as it ends every Python program
    peers_end_with: tuple[int, ...] = ()  # exit codes of those that lost the one that was hit
    lacks: Callable[[Soak], str] = lambda soak: ""

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        """Makes what all stories work on."""

    @contextlib.contextmanager
    def running(self, soak: Soak) -> Iterator[None]:
        """Within it run the servers that the processes need."""
        yield

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        """What the processes that work together do, each in a fork of its own."""
        raise NotImplementedError

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        after = draw.uniform(0, self.reach * cpu_seconds)
        to_all = number == signal.SIGINT or (number == signal.SIGKILL and draw.random() < 0.5)
        return Moment(number=number, cpu_seconds=after, to_all=to_all)

    def victim(self, pid: int, moment: Moment) -> int | None:
        """The process that gets the signal; None where it is gone."""
        return pid

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        """What is wrong with how processes ended, or with what they left."""
        number = generation.moment.number if generation.moment and ended.was_hit else None
        if number is None:
            if ended.code not in (0, self.again):
                yield f"exit code {ended.code}: {ended.stderr.strip()[-600:]}"
        elif number == signal.SIGKILL:
            if ended.code != -number:
                yield f"exit code {ended.code}: {ended.stderr.strip()[-600:]}"
        else:
            yield from interrupted(number, ended)

    def is_done(self, story: pathlib.Path) -> bool:
        """Whether a process that was hit had done everything."""
        return False

    def has_more(self, story: pathlib.Path) -> bool:
        """Whether a process that ended well leaves work to another one."""
        return False

    def end_faults(self, made: pathlib.Path, story: pathlib.Path) -> Iterator[str]:
        """What is wrong with what the story left, whatever another one leaves."""
        yield from ()

    def state(self, made: pathlib.Path, story: pathlib.Path) -> dict[str, object]:
        """What must be as after an undisturbed story, by name."""
        return {}


def interrupted(number: signal.Signals, ended: Ended) -> Iterator[str]:
    """What is wrong with how a command answered a signal."""
    lines = ended.stderr.splitlines()
    if ended.seconds > SECONDS_TO_END:
        yield f"took {ended.seconds:.1f} s"
    if ended.code != 128 + number:
        yield f"exit code {ended.code}"
    if len(lines) != 1 or not lines[0].startswith("interrupted: "):
        yield f"{len(lines)} lines: {' | '.join(lines[:3])[:300]}"
    if ended.living:
        yield f"{len(ended.living)} processes live on"

"""The commands of beam_jobs and pipeline that write a result: killed, interrupted, and run again."""

import dataclasses
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from tests.shared import forked
from tests.soak import commands, processes
from tests.soak.case import KILL, Case, Ended, Generation
from tests.soak.commands import Command
from tests.soak.harness import ROOT, Soak


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandCase(Case):
    """A command that is run again on what it left, until it ends well."""

    command: Command
    waits_for_handlers: bool = True
    signals: tuple[signal.Signals, ...] = (*KILL, *processes.ANSWERED)

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        commands.make(made, before=self.command.name)

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        arguments = self.command.writing_to(generation.made, result_of(generation.story))
        return [lambda: run_as_from_a_shell(arguments, generation)]

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        yield from super().faults_of(generation, ended)
        killed = generation.story / "killed"  # what a kill leaves in the result, later runs may find
        if ended.was_hit and generation.moment.number == signal.SIGKILL:
            killed.touch()
        elif ended.was_hit and (left := [*self._left(generation, with_result=not killed.exists())]):
            yield f"left {', '.join(left[:4])}"

    def is_done(self, story: pathlib.Path) -> bool:
        return not self.command.goes_on and self.command.has_published(result_of(story))

    def state(self, made: pathlib.Path, story: pathlib.Path) -> dict[str, object]:
        return dict(self.command.same(result_of(story)))

    def _left(self, generation: Generation, *, with_result: bool) -> Iterator[str]:
        """Files that neither are results nor are kept for the next run."""
        yield from (path.name for path in (generation.folder / "temporary").rglob("*"))
        result = result_of(generation.story)
        is_published = self.command.has_published(result)
        for path in result.parent.rglob("*") if with_result else ():
            is_result = path == result or result in path.parents
            half_written = path.name.startswith("_tmp") or path.name.endswith(".tmp")
            if half_written or not is_result or not (self.command.goes_on or is_published):
                yield str(path.relative_to(result.parent))


def result_of(story: pathlib.Path) -> pathlib.Path:
    return story / "out" / "result"


def run_as_from_a_shell(arguments: Sequence[str], generation: Generation) -> None:
    """Runs the command in this fork, or as a new Python, with a folder of its own for temporary files."""
    temporary = generation.folder / "temporary"
    temporary.mkdir(parents=True)
    result_of(generation.story).parent.mkdir(exist_ok=True)
    os.chdir(ROOT)
    os.environ["TMPDIR"], tempfile.tempdir = str(temporary), None
    for number in processes.ANSWERED:  # who runs this in the background, or with nohup, has it ignore some
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if generation.afresh:
        os.execv(sys.executable, [sys.executable, "-m", *arguments])
    forked.run_module(arguments)


CASES = tuple(
    CommandCase(
        name=command.name,
        sentence=f"{command.sentence}: one line, nothing half done, and the next run gives the same.",
        command=command,
    )
    for command in commands.COMMANDS
)

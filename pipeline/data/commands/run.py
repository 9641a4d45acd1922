"""The one way in which all commands run: flags, --help, errors in one line, exit codes, Ctrl-C.

A command is a module with these parts:

    if __name__ == "__main__":  # Ctrl-C may come while the imports below run
        from pipeline.data.commands import interrupt

        interrupt.installed()

    …
    COMMAND = Command(name="pipeline.export", description=__doc__, flags={"Flags": (_WORKDIR, _OUTPUT)})

    def main(argv: Sequence[str]) -> int | None: …

    if __name__ == "__main__":
        run_command(main, COMMAND)
"""

import faulthandler
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import logging

from pipeline.data import printable
from pipeline.data.commands import help_page, interrupt, parsing
from pipeline.data.commands.command import Command
from pipeline.data.errors import InputError, answer, disk_full, disk_is_full

EXIT_NOBODY_READS = 141  # 128 + SIGPIPE, as shells count: `… --help | head` closes the pipe early
_HELP = ("--help", "-help", "-h", "--helpfull", "--helpshort")

Main = Callable[[Sequence[str]], int | None]


def run_command(main: Main, command: Command) -> NoReturn:
    """Calls `main` with what stands behind the flags, the program's name first; ends the process.

    The exit code is what `main` returns, 0 for None; 2 after `error: …` for bad input; 130 after Ctrl-C.
    """
    interrupts = interrupt.installed()
    faulthandler.enable()
    logging.use_absl_handler()

    # Within what answers: an error that a library makes of Ctrl-C is not bad input.
    def guarded(argv: Sequence[str]) -> int:
        return interrupts.guard(lambda: main(argv) or 0)

    with printable.output():
        sys.exit(answered(guarded, command, sys.argv))


def answered(main: Main, command: Command, argv: Sequence[str]) -> int:
    """The exit code of `main`; bad input gets one line on stderr."""
    try:
        if any(argument in _HELP for argument in argv[1:]):
            print(help_page.text(command))
            code = 0
        else:
            code = main(parsing.parse(command, argv)) or 0
        sys.stdout.flush()
        return code
    except InputError as error:
        _drop_unwritten()
        return answer(error)
    except BrokenPipeError:
        _drop_unwritten()
        return EXIT_NOBODY_READS
    except Exception as error:
        if disk_is_full(error):
            _drop_unwritten()
            return answer(_no_room(error))
        if isinstance(error, OSError) and error.filename is not None:
            return answer(_no_such_path(error))
        raise


def _drop_unwritten() -> None:
    """Flushes stdout, to nowhere if it takes no more: Python would fail when it flushes at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _no_room(error: Exception) -> InputError:
    return disk_full(
        str(getattr(error, "filename2", None) or getattr(error, "filename", None) or "output"),
        room_for="what this command writes",
        action="Make room, or write to another disk; the same command may run again.",
    )


def _no_such_path(error: OSError) -> InputError:
    return InputError(
        os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename),
        received=error.strerror or str(error),
        expected="a path that this command can read or write",
        action="Correct the path, or its permissions.",
    )

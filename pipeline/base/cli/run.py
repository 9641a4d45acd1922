"""The one way in which all commands run: flags, --help, errors in one line, exit codes, Ctrl-C.

A command is a module with these parts:

    if __name__ == "__main__":  # Ctrl-C may come while the imports below run
        from pipeline.base.cli import signals

        signals.handle_signals()

    …
    COMMAND = Command(name="pipeline.export", description=__doc__, flags={"Flags": (_WORKDIR, _OUTPUT)})

    def main(argv: Sequence[str]) -> int | None: …

    if __name__ == "__main__":
        run_command(main, COMMAND)
"""

import faulthandler
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from absl import flags, logging

from pipeline.base import errors
from pipeline.base.cli import command, config, signals
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.config import Key
from pipeline.base.errors import InputError, TryAgainError, answer, disk_full, disk_is_full

EXIT_NOBODY_READS = 141  # 128 + SIGPIPE, as shells count: `… --help | head` closes the pipe early
_HELP = ("--help", "-help", "-h", "--helpfull", "--helpshort")
COMPLETE = "--complete"  # argument with which a shell asks for the words that may follow

Main = Callable[[Sequence[str]], int | None]


def run_command(main: Main, command: Command) -> NoReturn:
    """Calls `main` with the program's name and what follows the flags; ends the process.

    The exit code is what `main` returns, 0 for None; 2 after `error: …` for bad input; 130 after Ctrl-C.
    """
    interrupts = signals.handle_signals()
    # Under a limit, a library that aborts for lack of addresses has already said so in one line.
    if math.isinf(errors.address_space()):
        faulthandler.enable()
    logging.use_absl_handler()

    # This runs inside `answered`: an error into which a library turns Ctrl-C is not bad input.
    def guarded(argv: Sequence[str]) -> int:
        return interrupts.guard(lambda: main(argv) or 0)

    with errors.printable_output():
        sys.exit(answered(guarded, command, sys.argv))


def answered(main: Main, command: Command, argv: Sequence[str]) -> int:
    """The exit code of `main`; bad input gets one line on stderr."""
    try:
        if any(argument in _HELP for argument in argv[1:]):
            print(help_page(command, config_file=_given_config(argv)))
            code = 0
        elif tuple(argv[1:]) == (COMPLETE,):
            print("\n".join(flag_words(command)))
            code = 0
        else:
            with errors.naming_shortages(command.name, is_repeated=command.is_repeated):
                code = main(flags_lib.parse(command, argv)) or 0
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
            return answer(_no_room(error, command))
        if isinstance(error, OSError) and error.filename is not None:
            return answer(_no_such_path(error))
        raise


def _drop_unwritten() -> None:
    """Flushes stdout. If it takes no more, sends the rest nowhere: Python would fail when it flushes at its
    end.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _no_room(error: Exception, command: Command) -> InputError:
    return disk_full(
        str(getattr(error, "filename2", None) or getattr(error, "filename", None) or "output"),
        room_for="what this command writes",
        action="Make room; the same command goes on."
        if command.is_repeated
        else "Make room, or write to another disk; the same command may run again.",
        kind=TryAgainError if command.is_repeated else InputError,
    )


def _no_such_path(error: OSError) -> InputError:
    return InputError(
        os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename),
        received=error.strerror or str(error),
        expected="a path that this command can read or write",
        action="Correct the path, or its permissions.",
    )


# --- The page of --help: the description with its examples, flags under headings, the config's keys.


_WIDTH = 100
_KEY_WIDTH = 44


def _given_config(argv: Sequence[str]) -> str:
    """Returns the file of --config on a command line; empty where there is none."""
    given = [each for each in argv if each.startswith("--config=")]
    return given[-1].removeprefix("--config=") if given else ""


def help_page(command: Command, *, config_file: str = "") -> str:
    """Returns the page; with the values of a config file, where one is given, in place of the defaults."""
    sections = [f"{_usage(command)}\n\n{command.description.strip()}"]
    required = {holder.name for holder in command.required}
    for heading, holders in command.flags.items():
        lines = [described(flags.FLAGS[holder.name], required=holder.name in required) for holder in holders]
        sections.append("\n".join([heading, *lines]))
    if command.config_keys:
        sections.append(_keys(command.config_keys(), config_file))
    return "\n\n".join(sections)


def _usage(command: Command) -> str:
    needed = [_assignment(flags.FLAGS[holder.name]) for holder in command.required]
    return " ".join(["usage: python -m", command.name, "[FLAGS]", *needed, command.arguments]).rstrip()


def _assignment(flag: flags.Flag) -> str:
    placeholder, _ = command.placeholder_and_help(flag)
    return f"--{flag.name}={placeholder}"


def described(flag: flags.Flag, *, required: bool) -> str:
    """The lines about one flag: its name with a placeholder, and below it what the flag does."""
    name = f"--[no]{flag.name}" if flag.boolean else _assignment(flag)
    _, sentences = command.placeholder_and_help(flag)
    notes = " ".join((sentences, *_notes(flag, required=required)))
    return f"  {name}\n{textwrap.fill(notes, _WIDTH, initial_indent='      ', subsequent_indent='      ')}"


def _notes(flag: flags.Flag, *, required: bool) -> Iterator[str]:
    expected = command.expected_value(flag)
    if "number" in expected:
        yield f"{expected[0].upper()}{expected[1:]}."
    if isinstance(flag, flags.MultiFlag):
        yield "Repeats."
    if required:
        yield "Required."
    elif flag.default is not False and flag.default not in (None, "", []):
        yield f"(default: {flag.default})"


def _keys(keys: Sequence[Key], file: str) -> str:
    of_file = config.values_of_file(file) if file else {}
    whose = (
        f"Values of {file}"
        if file
        else "Defaults, where the file sets none; --help --config=FILE shows its own"
    )
    lines = [f"Keys of the config: --config.KEY=VALUE overrides the file. {whose}:"]
    for key in keys:
        name = f"  {key.name}={_shown(of_file.pop(key.name, key.default))}"
        meaning = textwrap.fill(
            f"{key.type}; {key.meaning}",
            _WIDTH,
            initial_indent=name.ljust(_KEY_WIDTH),
            subsequent_indent=" " * _KEY_WIDTH,
        )
        lines.append(meaning)
    return "\n".join([*lines, *(f"  {name}={_shown(value)}" for name, value in of_file.items())])


def _shown(value: object) -> str:
    """A default as one would write it after `=`; numbers of a tuple have four digits."""
    if isinstance(value, tuple):
        return ",".join(f"{part:.4g}" if isinstance(part, float) else str(part) for part in value)
    return str(value)


# --- Words that may follow a command's name, for the shell that completes them.


def flag_words(command: Command) -> Iterator[str]:
    """Yields every flag and every key of a config; with `=VALUE` for each value, where only a few are
    possible.
    """
    for holders in command.flags.values():
        for flag in (flags.FLAGS[holder.name] for holder in holders):
            if flag.boolean:
                yield from (f"--{flag.name}", f"--no{flag.name}")
            else:
                choices = getattr(flag.parser, "enum_values", None) or ("",)
                yield from (f"--{flag.name}={choice}" for choice in choices)
    if command.config_keys:
        yield from config.shipped()
        yield from (f"--config.{key.name}=" for key in command.config_keys())

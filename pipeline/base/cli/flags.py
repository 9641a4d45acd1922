"""Reads a command line; what is wrong with it becomes an InputError that names the nearest right flag."""

import itertools
import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from absl import flags

from pipeline.base.cli import command, config
from pipeline.base.cli.command import Command
from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.files import absolute

_SEE_HELP = "See --help."
_LONGEST_NAME = 200  # absl compares unknown names with all others, with one nested call for each letter


def parse(command: Command, argv: Sequence[str]) -> list[str]:
    """Sets the flags; returns the program's name and what follows the flags. Raises InputError."""
    for argument in argv[1:]:
        name = argument.partition("=")[0].lstrip("-")
        if argument.startswith("-") and len(name) > _LONGEST_NAME:
            raise _unknown(f"{name[:20]}…", command)
    try:
        with config.clear_config_errors(argv):
            given = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)
            _check_no_nul(given)
            _check_given_once(given)
            remaining = flags.FLAGS([argv[0], *given], known_only=command.unknown is not None)
    except flags.UnrecognizedFlagError as error:
        raise _unknown(error.flagname, command) from None
    except flags.IllegalFlagValueError as error:
        raise _wrong_value(error) from None
    except flags.CantOpenFlagFileError as error:
        raise config.cannot_open_flagfile(error) from None
    except flags.Error as error:
        raise _no_value(error) from None
    _check_behind_flags(command, remaining[1:])
    _check_required(command)
    return remaining


def _check_no_nul(given: Sequence[str]) -> None:
    """Raises InputError for a NUL, which a file of flags can hold and a command line cannot."""
    for argument in given:
        if "\0" in argument:
            raise InputError(
                "--flagfile",
                received=f"the flag {argument!r}",
                expected="text without the character NUL, which no name can hold",
                action="Remove it.",
            )


def _check_given_once(given: Sequence[str]) -> None:
    """Raises InputError for a flag that is given twice, unless it may repeat: absl would keep only the
    last.
    """
    seen: dict[str, str] = {}
    arguments = iter(given)
    for argument in itertools.takewhile(lambda each: each != "--", arguments):
        written, equals, value = argument.lstrip("-").partition("=")
        name, flag = _flag_of(written)
        if not argument.startswith("-") or not name:
            continue
        if not equals and flag is not None and not flag.boolean:
            value = next(arguments, "")
        value = f"{name}={value}" if equals or value else written
        if name in seen and not isinstance(flag, flags.MultiFlag):
            is_list = flag is not None and isinstance(flag.parser, flags.ListParser)
            raise given_twice(name, seen[name], value, is_list=is_list)
        seen[name] = value


def _flag_of(written: str) -> tuple[str, flags.Flag | None]:
    """Returns the name and the flag. A key of a config has no flag; what is neither has no name."""
    if written.startswith("no") and written not in flags.FLAGS and written[2:] in flags.FLAGS:
        written = written[2:]  # --nooverwrite
    if written in flags.FLAGS:
        return flags.FLAGS[written].name, flags.FLAGS[written]
    return written if written.partition(".")[0] in flags.FLAGS else "", None


def given_twice(name: str, first: str, second: str, *, is_list: bool = False) -> InputError:
    """The error of a flag that takes one value and is given twice."""
    return InputError(
        f"--{name}",
        received=f"it twice, as --{first} and --{second}",
        expected="all values in one, by commas" if is_list else "one value: the flag does not repeat",
        action=f"Write --{name}=A,B." if is_list else "Leave out one of the two, here or in a --flagfile.",
    )


def _check_behind_flags(command: Command, behind: Sequence[str]) -> None:
    unknown = command.unknown or (lambda behind: () if command.arguments else behind)
    for argument in unknown(behind):
        if argument.startswith("-"):
            raise _unknown(argument.lstrip("-").partition("=")[0], command)
        raise InputError(
            "command line",
            received=f"the argument '{argument}'",
            expected="flags only",
            action=f"Write --flag=value. {_SEE_HELP}",
        )


def _check_required(command: Command) -> None:
    for holder in command.required:
        if not flags.FLAGS[holder.name].value:
            raise _missing(f"--{holder.name}")


def _missing(flag: str) -> InputError:
    return InputError(flag, received="nothing", expected="a value", action="See --help for examples.")


def _unknown(name: str, command: Command) -> InputError:
    names = [holder.name for holders in command.flags.values() for holder in holders]
    if command.config_keys:
        names += [f"config.{key.name}" for key in command.config_keys()]
    return InputError(
        f"--{name}",
        received="a flag that this command does not have",
        expected="a flag that --help lists",
        action=did_you_mean(name, names, otherwise=_SEE_HELP, form="--{}"),
    )


def _wrong_value(error: flags.IllegalFlagValueError) -> InputError:
    r"""Makes the error from absl's `flag --NAME=VALUE: REASON`; the reason is in the error's context."""
    match = re.match(r"flag --(?P<name>[\w.]+)=(?P<rest>.*)", str(error), re.DOTALL)
    if not match:
        return _no_value(error)
    flag = flags.FLAGS[match["name"]]
    received = match["rest"].removesuffix(f": {error.__context__}")
    choices = getattr(flag.parser, "enum_values", ())
    if below := config.keys_below(flag.name):
        names = ", ".join(key.rpartition(".")[2] for key in below)
        # What people write for a whole group is most often a name, as in --config.optimizer=adam.
        example = next((key for key in below if key == f"{flag.name}.name"), below[0])
        return InputError(
            f"--{flag.name}",
            received=received or "nothing",
            expected=f"its keys, one by one: {names}",
            action=f"Write --{example}=VALUE.",
        )
    return InputError(
        f"--{flag.name}",
        received=received or "nothing",
        expected=command.expected_value(flag),
        action=did_you_mean(received, choices, otherwise=_SEE_HELP, form=f"--{flag.name}={{}}"),
    )


def _no_value(error: flags.Error) -> InputError:
    if without := re.fullmatch(r"Missing value for flag (?P<flag>\S+)", str(error).strip()):
        return _missing(without["flag"])
    return InputError(
        "command line", received=str(error), expected="flags as --help lists them", action=_SEE_HELP
    )


# --- Checks of flags that absl cannot make: files that can be written, directories, separators.


def check_local_files(values: Mapping[str, str | None]) -> None:
    """Raises InputError for a flag whose value is not a local file in a directory that exists."""
    for name, value in values.items():
        if value and not pathlib.Path(value).absolute().parent.is_dir():
            raise InputError(
                f"--{name}={value}",
                received="a directory that does not exist",
                expected="a local file in a directory that does",
                action="Create the directory, or choose another.",
            )
        if value and pathlib.Path(value).is_dir():
            raise InputError(
                f"--{name}={value}",
                received="a directory",
                expected="the name of a file",
                action="Name a file in it.",
            )
        # /dev/stdout may lead to a file: a superuser would replace the link itself.
        is_in_dev = value and absolute(value).parent == pathlib.Path("/dev")
        if is_in_dev or (value and pathlib.Path(value).exists() and not pathlib.Path(value).is_file()):
            raise InputError(
                f"--{name}={value}",
                received="a device or a pipe",
                expected="the name of an ordinary file",
                action="Name a file, and read it afterwards.",
            )


def local_directory(name: str, value: str) -> pathlib.Path:
    """`value` as an absolute path without `..`; raises InputError for a URL."""
    if "://" in value:
        raise InputError(
            f"--{name}",
            received=value,
            expected="a local directory",
            action="Name a local directory; copy it from an object store before, or to one afterwards.",
        )
    check_utf8(name, value)
    return absolute(value)


def check_utf8(name: str, value: str) -> None:
    """Raises InputError for a path that is not UTF-8, which JSON and TensorFlow cannot hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"--{name}",
            received=os.fsencode(value).decode("utf-8", "backslashreplace"),
            expected="a path in UTF-8",
            action="Choose another name.",
        ) from None


def directory(value: str) -> str:
    """`value` as an absolute path without `..`, or unchanged if it is a URL."""
    return value.rstrip("/") if "://" in value else str(absolute(value))


def quoting(text: str, flag: str, *, default: str) -> str:
    """Returns the one character that encloses or escapes, or "none"; raises InputError."""
    if text in ("", "none"):
        return text or default
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in " \t\r\n":
        raise InputError(
            f"--{flag}",
            received=repr(text),
            expected="one ASCII character that is no letter, digit or blank, or none",
            action=f"Write --{flag}='\\' for a backslash, --{flag}=none for no such character.",
        )
    return text


def separator(text: str) -> str:
    r"""Returns one character; `\t` stands for a tab, which is hard to type in shells. Raises InputError."""
    separator = text.replace("\\t", "\t")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise InputError(
            "--delimiter",
            received=repr(text),
            expected="one ASCII character, no quote",
            action=r"Write \t for a tab.",
        )
    return separator

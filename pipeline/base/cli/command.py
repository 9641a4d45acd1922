"""The arguments of a command: its flags under headings, and positional ones."""

import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import flags

from pipeline.base.cli.config import Key
from pipeline.base.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """The arguments of a command.

    Attributes:
      name: the module, as `python -m` takes it.
      description: what it does, with examples: the module's docstring.
      flags: every flag of the command, under the headings of --help.
      required: the flags that must have a value.
      arguments: what follows the flags, such as `DIR`; empty where nothing may follow.
      unknown: function that gets the flags that this command does not have, and returns those that nobody
        else knows either; None: nobody else is asked.
      config_keys: the keys of --config, where there is such a flag.
      is_repeated: whether a scheduler repeats the command; then a full disk may have room at the next try.
    """

    name: str
    description: str
    flags: Mapping[str, Sequence[flags.FlagHolder]]
    required: Sequence[flags.FlagHolder] = ()
    arguments: str = ""
    unknown: Callable[[Sequence[str]], Sequence[str]] | None = None
    config_keys: Callable[[], Sequence[Key]] | None = None
    is_repeated: bool = False


# --- Descriptions of flags' values, for --help and for errors.


# Text that absl puts before the help of a flag with choices, and after the help of a flag that repeats.
_ABSL_ADDS = re.compile(r"^<[^>]*>: |;? ?repeat this option to specify a list of values$")
_PLACEHOLDER = re.compile(r"(?P<text>\S*[A-Z]{2}\S*|A,B,…): ")


def expected_value(flag: flags.Flag) -> str:
    """Describes a value of the flag, such as `a whole number, at least 1`."""
    parser = flag.parser
    if choices := getattr(parser, "enum_values", None):
        return f"one of {', '.join(choices)}"
    if flag.boolean or isinstance(parser, flags.BooleanParser):
        return "true or false"
    if isinstance(parser, flags.IntegerParser):
        return f"a whole number{_bounds(parser)}"
    if isinstance(parser, flags.FloatParser):
        return f"a number{_bounds(parser)}"
    return "a value"


def placeholder_and_help(flag: flags.Flag) -> tuple[str, str]:
    """Returns the placeholder that --help shows after `=`, and the sentences about the flag.

    A flag's help may start with the placeholder in capitals: `FILE: where the summary goes.`
    """
    text = _ABSL_ADDS.sub("", " ".join((flag.help or "").split()))
    if given := _PLACEHOLDER.match(text):
        rest = text[given.end() :]
        return given["text"], rest[:1].upper() + rest[1:]
    return _placeholder(flag), text


def _placeholder(flag: flags.Flag) -> str:
    if choices := getattr(flag.parser, "enum_values", None):
        return "|".join(choices)
    if isinstance(flag.parser, flags.IntegerParser | flags.FloatParser):
        return "NUMBER"
    return "A,B,…" if isinstance(flag.parser, flags.ListParser) else "TEXT"


def _bounds(parser: flags.IntegerParser | flags.FloatParser) -> str:
    least, most = parser.lower_bound, parser.upper_bound
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if least is not None:
        return f", at least {least}"
    return "" if most is None else f", at most {most}"


# --- Errors after the result is published.


@contextlib.contextmanager
def announce_published(result: str) -> Iterator[None]:
    """Wraps the block that prints the summary, on stdout and in --json; `result` is, for example, `the
    dataset DIR`.

    Raises:
      InputError: the summary could not be written. It says that the result is there: otherwise a person who
        reads about a full disk would run the command again.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads stdout any more, on purpose
        raise
    except OSError as error:
        raise InputError(
            "the summary, on stdout or in --json",
            received=error.strerror or str(error),
            expected="a place that takes it",
            action=f"Only the summary is lost: {result} is published, and whole.",
        ) from None

"""How the binaries of this folder read their command line: wrong flags are bad input like any other."""

import sys
from collections.abc import Mapping, Sequence

from absl import flags

from pipeline.data.errors import EXIT_BAD_INPUT, InputError


def parse_flags(argv: Sequence[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_flags)`."""
    return _parse(argv, known_only=False)


def parse_known_flags(argv: Sequence[str]) -> list[str]:
    """The same, leaving unknown flags to `main`'s argument."""
    return _parse(argv, known_only=True)


def check_given(values: Mapping[str, object]) -> None:
    """Raises InputError for the first flag that has no value."""
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise InputError(
            f"--{missing[0]}", received="nothing", expected="a value", action="See --help for examples."
        )


def separator(text: str) -> str:
    r"""One character, of which `\t` is the one that shells make hard to type; raises InputError."""
    separator = text.replace("\\t", "\t")
    if len(separator) != 1:
        raise InputError(
            "--delimiter", received=repr(text), expected="one character", action=r"Write \t for a tab."
        )
    return separator


def _parse(argv: Sequence[str], *, known_only: bool) -> list[str]:
    try:
        return flags.FLAGS(list(argv), known_only=known_only)
    except flags.Error as error:
        print(f"error: {error}. See --help.", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)

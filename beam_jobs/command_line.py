"""How the binaries of this folder read their command line: wrong flags are bad input like any other."""

import pathlib
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


def local_directory(name: str, value: str) -> pathlib.Path:
    """`value` as an absolute path; raises InputError for a URL."""
    if "://" in value:
        raise InputError(
            f"--{name}",
            received=value,
            expected="a local directory",
            action="Publish locally and copy the directory; writing to object stores is not built yet.",
        )
    return pathlib.Path(value).absolute()


def directory(value: str) -> str:
    """`value` as an absolute path, or as the URL that it is."""
    return value.rstrip("/") if "://" in value else str(pathlib.Path(value).absolute())


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

"""What values of flags must be that absl cannot check: files that can be written, directories, separators."""

import os
import pathlib
from collections.abc import Mapping

from pipeline.data.errors import InputError


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


def local_directory(name: str, value: str) -> pathlib.Path:
    """`value` as an absolute path without `..`; raises InputError for a URL."""
    if "://" in value:
        raise InputError(
            f"--{name}",
            received=value,
            expected="a local directory",
            action="Publish locally and copy the directory; writing to object stores is not built yet.",
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
    """`value` as an absolute path without `..`, or as the URL that it is."""
    return value.rstrip("/") if "://" in value else str(absolute(value))


def absolute(value: str | os.PathLike) -> pathlib.Path:
    """`value` as an absolute path without `..`.

    Only where it has a `..` are links followed, as the system does: TensorFlow shortens `link/..` to nothing.
    """
    path = pathlib.Path(value)
    return path.resolve() if ".." in path.parts else path.absolute()


def separator(text: str) -> str:
    r"""One character, of which `\t` is the one that shells make hard to type; raises InputError."""
    separator = text.replace("\\t", "\t")
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
        raise InputError(
            "--delimiter",
            received=repr(text),
            expected="one ASCII character, no quote",
            action=r"Write \t for a tab.",
        )
    return separator

"""Where the code of a user fails: file and line, and the message in one line."""

import contextlib
import functools
import os
import pathlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator

from pipeline.base.errors import InputError

_LIBRARIES = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
_OTHERS = tuple(f"{each}{os.sep}" for each in (*_LIBRARIES, pathlib.Path(__file__).parents[1]))
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # Keras prints parts of its messages in bold
_OF_TENSORFLOW = re.compile(r"\{\{function_node \S+\}\} | \[Op:\w+\](?: name:.*)?$")


@contextlib.contextmanager
def naming_line(thing: str, made: object, *, expected: str, otherwise: str, more: str = "") -> Iterator[None]:
    """Raises an InputError with file and line where own code fails in the block, or would end the process.

    Args:
      made: the function, the class or an object of it.
      otherwise: the action where no line is known, as in a library.
      more: what else may be wrong, as the end of the action.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        where = line_of(made, error)
        raise InputError(
            thing,
            received=f"{type(error).__name__}: {one_line(error)}",
            expected=expected,
            action=f"Correct {where}{more}." if where else otherwise,
        ) from None


def line_of(made: object, error: BaseException) -> str:
    """The file and the innermost line of own code where it failed; empty where none is known."""
    file = _file(made)
    frames = (frame_below(pathlib.Path(file).parent, error),) if file else ()
    return "".join(f"{each.filename}, line {each.lineno}" for each in frames if each)


def named(made: object) -> str:
    """Its code, in words: with the file, unless it is a library's."""
    file = _file(made)
    return f"its code in {file}" if file and not is_of_others(file) else "its code"


def is_of_others(file: str) -> bool:
    """Whether a file of Python is Penstock's or a library's."""
    return file.startswith(_OTHERS)


def _file(made: object) -> str:
    made = made.func if isinstance(made, functools.partial) else made
    module = getattr(made, "__module__", None) or type(made).__module__
    return getattr(sys.modules.get(module), "__file__", None) or ""


def frame_below(folder: pathlib.Path, error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of a file below the folder, neither of Penstock nor of a library: an environment
    may lie there, too.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if pathlib.Path(each.filename).is_relative_to(folder)]
    return next((each for each in reversed(own) if not is_of_others(each.filename)), None)


def one_line(error: BaseException) -> str:
    """The error's message in one line, without escapes and without TensorFlow's names of operations."""
    return _OF_TENSORFLOW.sub("", plain(message_of(error)))


def message_of(error: BaseException) -> str:
    """The error's text; that of a KeyError of several lines without the quotes and escapes around it."""
    is_quoted = isinstance(error, KeyError) and "\n" in str(error.args[0] if error.args else "")
    return str(error.args[0] if is_quoted else error)


def plain(text: str) -> str:
    """The text in one line, without escapes."""
    return " ".join(_ESCAPES.sub("", text).split())

"""One line for what ended a run: a full disk, a worker that died, a bug."""

import contextlib
import errno
import pathlib
import re
import tempfile
import traceback
from collections.abc import Iterator

from pipeline.data.commands import interrupt
from pipeline.data.errors import InputError, disk_full, disk_is_full

# A line of a worker's traceback that names an exception, without what Beam adds to it.
_CAUSE = re.compile(
    r"^(?P<cause>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*?)(?: \[while running.*)?$", re.M
)


@contextlib.contextmanager
def told_in_one_line(output: pathlib.Path | str) -> Iterator[None]:
    """Raises InputError in place of any other exception; the traceback of a bug is kept in a file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if interrupt.has_come():  # Beam misses the workers that were ended
            raise
        if disk_is_full(error):
            raise _no_room(output) from None
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise _name_too_long(output) from None
        raise _failed(f"{type(error).__name__}: {error}") from None


def _no_room(output: pathlib.Path | str) -> InputError:
    return disk_full(
        f"--output={output}",
        room_for="about three times the input: the rows while they are shuffled, and the records",
        action="Nothing was published and nothing is left behind. Make room, or choose another disk.",
    )


def _name_too_long(output: pathlib.Path | str) -> InputError:
    return InputError(
        f"--output={output}",
        received="a file name that is too long for the file system",
        expected="one that it takes, commonly of at most 255 bytes",
        action="Nothing was published. Choose a shorter name.",
    )


def _failed(text: str) -> InputError:
    causes = [found["cause"] for found in _CAUSE.finditer(text)]
    return InputError(
        "the run",
        received=" ".join((causes[-1] if causes else text).split())[:300],
        expected="workers that end their work",
        action=f"Nothing was published. {_kept(text)} If a worker was killed, give the machine more "
        "memory or use fewer workers.",
    )


def _kept(text: str) -> str:
    """Says where the traceback is kept, if it can be."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".log", delete=False) as log:
            log.write(f"{text}\n\n{traceback.format_exc()}")
    except OSError:  # the temporary directory is full, or there is none
        return "The traceback could not be kept."
    return f"The whole traceback is in {log.name}."

"""Claims a directory for one run, and leaves no trace of a run that fails.

A run owns `<output>/_tmp/` from its first act to its last but one, and holds a lock on the output
directory, which the kernel releases when the process dies. So a directory with `_tmp` and no manifest is
what a killed run left, and the next run clears it away; anything else in there is somebody's, and refused.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence

from pipeline.data import manifest as manifest_lib
from pipeline.data.errors import InputError

TEMPORARY = "_tmp"
# Every name that a run gives to something in the output directory.
_OURS = re.compile(
    r"_tmp|rejected|[a-z0-9_]+-[a-z0-9_]+(\.tfrecord-\d{5}-of-\d{5}|-\d{5}-of-\d{5}\.index)|.+\.labels\.txt|dataset_info\.json"
    r"|features\.json|schema\.json|schema\.pbtxt|statistics\.pb|conversion\.json|anomalies\.json"
    r"|predictions-\d{5}-of-\d{5}\.(parquet|tfrecord)"
)


@contextlib.contextmanager
def claimed(output: pathlib.Path) -> Iterator[pathlib.Path]:
    """Claims `output` and gives a temporary directory in it; if the block fails, leaves no trace.

    Raises InputError if a dataset, foreign files or another run are there.
    """
    made = _make_directories(output)
    try:
        with _locked(output):
            _check_unpublished(output)
            _clear(output)
            temporary = output / TEMPORARY / uuid.uuid4().hex
            temporary.mkdir(parents=True)
            try:
                yield temporary
            except BaseException:
                _clear(output)
                raise
            shutil.rmtree(output / TEMPORARY)
    except BaseException:
        for directory in made:
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise


def already_published(output: pathlib.Path | str) -> InputError:
    return InputError(
        f"--output={output}",
        received="a published dataset",
        expected="a directory that does not exist, or is empty",
        action="Datasets are never overwritten: choose a new version directory, or remove this one.",
    )


def check_ours(output: pathlib.Path | str, names: Sequence[str]) -> None:
    """Raises InputError if any of `names` in `output` may be somebody else's."""
    foreign = [name for name in names if not _OURS.fullmatch(name)] if TEMPORARY in names else names
    if foreign:
        raise InputError(
            f"--output={output}",
            received=f"a directory that holds {', '.join(foreign[:5])}",
            expected="a directory that does not exist, or is empty",
            action="Choose another directory, or move these files away.",
        )


def _make_directories(output: pathlib.Path) -> list[pathlib.Path]:
    """Creates `output` and its parents; gives those that were not there, innermost first."""
    made = [path for path in (output, *output.parents) if not path.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output={output}",
            received=error.strerror,
            expected="a directory that can be created",
            action="Choose another directory.",
        ) from None
    return made


@contextlib.contextmanager
def _locked(output: pathlib.Path) -> Iterator[None]:
    descriptor = os.open(output, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that failed meanwhile may have removed the directory that we opened.
        if not output.exists() or output.stat().st_ino != os.fstat(descriptor).st_ino:
            raise BlockingIOError
        yield
    except BlockingIOError:
        raise InputError(
            f"--output={output}",
            received="a directory that another run is writing to",
            expected="a directory of its own for each run",
            action="Wait for that run to end, or choose another directory.",
        ) from None
    finally:
        os.close(descriptor)


def _check_unpublished(output: pathlib.Path) -> None:
    if not (output / manifest_lib.FILE_NAME).exists():
        return
    # Killed between its last two acts, a run leaves this beside a whole dataset.
    shutil.rmtree(output / TEMPORARY, ignore_errors=True)
    raise already_published(output)


def _clear(output: pathlib.Path) -> None:
    """Removes what a run left; raises InputError if any of it may be somebody else's."""
    found = sorted(path.name for path in output.iterdir())
    check_ours(output, found)
    # The mark that these leftovers are ours goes last.
    for name in sorted(found, key=lambda name: name == TEMPORARY):
        path = output / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

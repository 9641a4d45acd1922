"""Who writes to a serving directory: one process at a time, which first finishes what a killed one began."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterator

from pipeline.data import atomic_files, held_directory
from pipeline.data.errors import InputError, TryAgainError, disk_full, disk_is_full
from pipeline.release.publish import journal as journal_lib
from pipeline.release.publish import staging
from pipeline.release.publish.journal import Journal, Move

_COLLECTED = ".collected-"


@contextlib.contextmanager
def settled(directory: pathlib.Path) -> Iterator[Journal]:
    """Holds the directory, which is made, while the block runs; gives its journal, in which no move is left.

    Raises:
      TryAgainError: another process writes there, or the disk is full.
      InputError: the journal was altered.
    """
    with _told_if_full(directory):
        if not directory.is_dir():
            directory.mkdir(parents=True)
            atomic_files.synchronise(directory.parent)
        with held_directory.held(directory, thing=f"versions in {directory}"):
            journal = journal_lib.load(directory)
            if journal.moves:
                journal = commit(directory, journal)
            _sweep(directory)
            yield journal


def commit(directory: pathlib.Path, journal: Journal) -> Journal:
    """Makes the journal's moves; a kill at any moment leaves what the next writer finishes."""
    journal_lib.save(directory, journal)
    for move in journal.moves:
        _make(directory, move)
    journal_lib.save(directory, journal.done())
    return journal.done()


def move_away(directory: pathlib.Path, journal: Journal) -> Journal:
    """As `commit`; where there is no room to write the journal, the moves are made before it is told.

    Only for moves to .quarantine, which speak for themselves: a bad version goes even so.
    """
    try:
        return commit(directory, journal)
    except OSError as error:
        if disk_is_full(error):
            for move in journal.moves:
                _make(directory, move)
        raise


@contextlib.contextmanager
def staged_folder(directory: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    """A new folder beside the versions; if the block fails, it is gone."""
    staged = directory / f"{staging.PREFIX}{name}"
    staged.mkdir()
    try:
        yield staged
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def remove(directory: pathlib.Path, name: str) -> None:
    """Removes a version, or another folder: under a name that readers pass over, before its files go."""
    target = directory / f"{_COLLECTED}{name.replace('/', '-')}"
    (directory / name).rename(target)
    atomic_files.synchronise((directory / name).parent)
    shutil.rmtree(target)


def _make(directory: pathlib.Path, move: Move) -> None:
    source, target = directory / move.source, directory / move.target
    if not source.exists():
        return  # made before a kill, or removed by hand
    if target.exists():
        _make_way(directory, move)
    target.parent.mkdir(exist_ok=True)
    source.rename(target)
    for folder in {directory, target.parent}:
        atomic_files.synchronise(folder)


def _make_way(directory: pathlib.Path, move: Move) -> None:
    """For a version that was set aside before, and restored by hand since; never for one that is served."""
    if not move.target.startswith(f"{journal_lib.QUARANTINE}/"):
        raise InputError(
            f"version {directory / move.target}",
            received="a file or folder that something else put there",
            expected="none: the version is about to appear there",
            action="Move it away; the same command goes on then.",
        )
    remove(directory, move.target)


def _sweep(directory: pathlib.Path) -> None:
    """Removes what killed processes left: nobody else writes here now."""
    for prefix in (staging.PREFIX, _COLLECTED):
        for path in directory.glob(f"{prefix}*"):
            shutil.rmtree(path)


@contextlib.contextmanager
def _told_if_full(directory: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not disk_is_full(error):
            raise
        raise disk_full(
            f"versions in {directory}",
            room_for="another version",
            action="Make room: nothing half is there, and the same command may run again.",
            kind=TryAgainError,
        ) from None

"""Writes to a serving directory: locks it, stages versions, and makes them appear and disappear whole.

One process writes at a time, and first finishes what a killed one began. A version is staged in a folder that
TensorFlow Serving ignores, is written to the disk as a whole, and gets its number by a rename that the
journal records. Before it is deleted, it is renamed, too.
"""

import contextlib
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping

from pipeline.base import directories
from pipeline.base import files as files_lib
from pipeline.base.errors import InputError, TryAgainError, disk_full, disk_is_full
from pipeline.data.dataset import records
from pipeline.publishing import journal as journal_lib
from pipeline.publishing import versions
from pipeline.publishing.journal import Journal, Move

_STAGED, _COLLECTED = ".staging-", ".collected-"


@contextlib.contextmanager
def settled(directory: pathlib.Path) -> Iterator[Journal]:
    """Creates and holds the directory while the block runs; yields its journal, without open moves.

    Raises:
      TryAgainError: another process writes there, or the disk is full.
      InputError: the journal was altered.
    """
    with _translate_full_disk(directory):
        if not directory.is_dir():
            directory.mkdir(parents=True)
            files_lib.synchronise(directory.parent)
        with files_lib.hold_directory(directory, thing=f"versions in {directory}"):
            journal = journal_lib.load(directory)
            if journal.moves:
                journal = commit(directory, journal)
            _sweep(directory)
            yield journal


def commit(directory: pathlib.Path, journal: Journal) -> Journal:
    """Makes the journal's moves. After a kill at any moment the next writer finishes them."""
    journal_lib.save(directory, journal)
    for move in journal.moves:
        _make(directory, move)
    journal_lib.save(directory, journal.done())
    return journal.done()


def move_away(directory: pathlib.Path, journal: Journal) -> Journal:
    """Commits; where there is no room for the journal, makes the moves without it, and raises.

    Only moves to .quarantine use it. They need no journal, so a bad version can be removed even on a full
    disk.
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
    """Makes a folder beside the versions; removes it if the block fails."""
    with directories.staged(directory / f"{_STAGED}{name}") as staged:
        yield staged


def stage_export(
    export: pathlib.Path,
    staged: pathlib.Path,
    *,
    documents: Mapping[str, bytes],
    version: int,
    cycle: str,
    at: str,
) -> None:
    """Copies the files that the export lists, and `documents`, to the new folder `staged`.

    Raises:
      InputError: the export is not as it was written, or a document has the name of one of its files.
    """
    files = [*records.open_export(export)["files"], records.FILE_NAME]
    _check_names(documents, files)
    _copy(export, staged, files)
    records.open_export(staged)  # it may have changed during the copy
    for name, content in documents.items():
        files_lib.write_bytes(staged / name, content)
    _finish(staged, versions.describe(staged, version=version, cycle=cycle, at=at))


def stage_again(
    directory: pathlib.Path,
    staged: pathlib.Path,
    *,
    to: int,
    version: int,
    instead_of: int,
    reason: str,
    at: str,
) -> None:
    """Copies the files of the published version `to` to the new folder `staged`, which becomes `version`.

    Raises:
      InputError: the files are not those that were published.
    """
    published = versions.published(directory, to)
    _copy(versions.path_of(directory, to), staged, published["files"])
    versions.check_files(staged, published)
    rolled_back = {"from": instead_of, "to": to, "reason": reason}
    _finish(
        staged,
        versions.describe(staged, version=version, cycle=published["cycle"], at=at, rolled_back=rolled_back),
    )


def remove(directory: pathlib.Path, name: str) -> None:
    """Removes a version or another folder; first renames it to a name that readers ignore."""
    directories.remove(directory / name, under=directory / f"{_COLLECTED}{name.replace('/', '-')}")


def _copy(source: pathlib.Path, target: pathlib.Path, names: Iterable[str]) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def _finish(staged: pathlib.Path, document: Mapping) -> None:
    directories.commit(staged, versions.FILE_NAME, versions.dumps(document))


def _check_names(documents: Mapping[str, bytes], files: Iterable[str]) -> None:
    taken = {*files, versions.FILE_NAME}
    for name in documents:
        if name in taken or pathlib.PurePath(name).name != name or name in ("", ".", ".."):
            raise InputError(
                f"document {name!r}",
                received="the name of a file of the model" if name in taken else "a path",
                expected="a file name of its own, beside the model",
                action="Give it another name.",
            )


def _make(directory: pathlib.Path, move: Move) -> None:
    source, target = directory / move.source, directory / move.target
    if not source.exists():
        return  # done before a kill, or removed by hand
    if target.exists():
        _make_way(directory, move)
    target.parent.mkdir(exist_ok=True)
    directories.rename(source, target)


def _make_way(directory: pathlib.Path, move: Move) -> None:
    """Removes a version that was set aside before and then restored by hand; never a served one."""
    if not move.target.startswith(f"{journal_lib.QUARANTINE}/"):
        raise InputError(
            f"version {directory / move.target}",
            received="a file or folder that something else put there",
            expected="none: the version is about to appear there",
            action="Move it away; the same command goes on then.",
        )
    remove(directory, move.target)


def _sweep(directory: pathlib.Path) -> None:
    """Removes the remains of killed processes."""
    for prefix in (_STAGED, _COLLECTED):
        for path in directory.glob(f"{prefix}*"):
            directories.erase(path)


@contextlib.contextmanager
def _translate_full_disk(directory: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not disk_is_full(error):
            raise
        raise disk_full(
            f"versions in {directory}",
            room_for="another version",
            action="Make room; nothing is left half done, and the same command may run again.",
            kind=TryAgainError,
        ) from None

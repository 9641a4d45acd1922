"""A version before it is one: a folder that TensorFlow Serving passes over, whole and on the disk."""

import contextlib
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping

from pipeline.base import files as files_lib
from pipeline.base.errors import InputError, TryAgainError, disk_full, disk_is_full
from pipeline.data.dataset import records
from pipeline.publishing import journal as journal_lib
from pipeline.publishing import versions
from pipeline.publishing.journal import Journal, Move

PREFIX = ".staging-"


def stage_export(
    export: pathlib.Path,
    staged: pathlib.Path,
    *,
    documents: Mapping[str, bytes],
    version: int,
    cycle: str,
    at: str,
) -> None:
    """Copies the files that the export lists, and `documents` beside them, to the new folder `staged`.

    Raises:
      InputError: the export is not as it was written, or a document has the name of one of its files.
    """
    files = [*records.open_export(export)["files"], records.FILE_NAME]
    _check_names(documents, files)
    _copy(export, staged, files)
    records.open_export(staged)  # it may have changed while it was copied
    for name, content in documents.items():
        files_lib.write_bytes(staged / name, content)
    _finish(staged, versions.describe_publication(staged, version=version, cycle=cycle, at=at))


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
    versions.check_bytes(staged, published)
    rolled_back = {"from": instead_of, "to": to, "reason": reason}
    document = versions.describe_publication(
        staged, version=version, cycle=published["cycle"], at=at, rolled_back=rolled_back
    )
    _finish(staged, document)


def _copy(source: pathlib.Path, target: pathlib.Path, names: Iterable[str]) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def _finish(staged: pathlib.Path, document: Mapping) -> None:
    """Adds publication.json; then every file, and every name in every folder, is on the disk."""
    files_lib.write_bytes(staged / versions.PUBLICATION_FILE_NAME, versions.dumps_publication(document))
    for path in (*staged.rglob("*"), staged):
        files_lib.synchronise(path)


def _check_names(documents: Mapping[str, bytes], files: Iterable[str]) -> None:
    taken = {*files, versions.PUBLICATION_FILE_NAME}
    for name in documents:
        if name in taken or pathlib.PurePath(name).name != name or name in ("", ".", ".."):
            raise InputError(
                f"document {name!r}",
                received="the name of a file of the model" if name in taken else "a path",
                expected="a file name of its own, beside the model",
                action="Give it another name.",
            )


# --- Who writes to a serving directory: one process at a time, which first finishes what a killed one began.


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
            files_lib.synchronise(directory.parent)
        with files_lib.hold_directory(directory, thing=f"versions in {directory}"):
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
    staged = directory / f"{PREFIX}{name}"
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
    files_lib.synchronise((directory / name).parent)
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
        files_lib.synchronise(folder)


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
    for prefix in (PREFIX, _COLLECTED):
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

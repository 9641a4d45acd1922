"""A local output directory: one run locks it, fills it and completes it; a run that fails leaves no trace.

The lock is on the directory itself. The kernel releases it when the process dies.
"""

import contextlib
import dataclasses
import pathlib
import shutil
import uuid
from collections.abc import Iterator

from beam_jobs.launch import claims
from beam_jobs.launch.claims import CLAIM_MARK, TEMPORARY, already_published, check_ours, leftovers_in_order
from pipeline.base import directories, files
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocalDestination:
    """Implements `output.Destination`."""

    directory: pathlib.Path
    local: pathlib.Path

    @property
    def shared(self) -> str:
        return str(self.local)

    def move(self, path: str, name: str) -> None:
        pathlib.Path(path).replace(self.directory / name)

    def commit(self, name: str, content: str) -> None:
        draft = self.local / name
        directories.commit(self.directory, name, content.encode(), draft=draft, apart={TEMPORARY})


@contextlib.contextmanager
def claimed(output: str) -> Iterator[LocalDestination]:
    """Claims as `destination.claimed` does; raises InputError if a dataset, foreign files or another run are
    there.
    """
    directory = pathlib.Path(output)
    made = _make_directories(directory)
    try:
        with files.hold_directory(directory, thing=f"--output={output}"):
            _check_unpublished(directory)
            _clear(directory)
            try:
                temporary = _make_temporary(directory)
                yield LocalDestination(directory=directory, local=temporary)
            except BaseException:
                _clear(directory)
                raise
            _remove_temporary(directory)
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


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


def _check_unpublished(output: pathlib.Path) -> None:
    if not (output / manifest_lib.FILE_NAME).exists():
        return
    # A run that is killed between its last two operations leaves this beside a whole dataset.
    if _is_marked(output):
        _remove_temporary(output)
    raise already_published(output)


def _clear(output: pathlib.Path) -> None:
    """Removes what a run left; raises InputError if any of it may be somebody else's."""
    with contextlib.suppress(OSError):
        (output / TEMPORARY).rmdir()  # empty: a run was killed before it could mark it
    found = sorted(path.name for path in output.iterdir())
    check_ours(output, found, is_marked=_is_marked(output))
    for name in leftovers_in_order(found):
        path = output / name
        if name == TEMPORARY:
            _remove_temporary(output)
        else:
            directories.erase(path)


def _make_temporary(output: pathlib.Path) -> pathlib.Path:
    """A new directory for one run, inside the directory that is marked as ours."""
    (output / TEMPORARY).mkdir()
    (output / CLAIM_MARK).touch()
    made = output / TEMPORARY / uuid.uuid4().hex
    made.mkdir()
    return made


def _is_marked(output: pathlib.Path) -> bool:
    return (output / CLAIM_MARK).is_file() and not (output / TEMPORARY).is_symlink()


def _remove_temporary(output: pathlib.Path) -> None:
    """Removes the mark last, so that what a kill leaves is still known as ours."""
    for path in (output / TEMPORARY).iterdir():
        if path.is_dir():
            # The other name keeps threads that still run from writing into it meanwhile.
            shutil.rmtree(path.rename(path.with_name(f"{path.name}.gone")))
        elif path.name != claims.TEMPORARY_MARK:
            path.unlink()
    (output / CLAIM_MARK).unlink(missing_ok=True)
    (output / TEMPORARY).rmdir()

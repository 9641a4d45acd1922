"""The checkpoints that lie in a directory: their names, and how one appears, is set aside and goes.

Earlier versions wrote flat files, `ckpt-STEP.index` and `ckpt-STEP.data-…`; they are listed, too.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

from pipeline.data import atomic_files
from pipeline.data.errors import InputError
from pipeline.training.state.checkpoints import flat, manifest
from pipeline.training.state.checkpoints.manifest import DamagedError

_STEP = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".tmp"  # what a kill leaves half written or half deleted; the next run sweeps it
_DAMAGED = ".damaged"
_TENSORFLOWS_LIST = "checkpoint"  # beside flat checkpoints; not trusted, and gone with the last of them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A checkpoint, sound or not: a directory, or the common prefix of flat files."""

    step: int
    path: pathlib.Path

    @property
    def is_flat(self) -> bool:
        return not _STEP.fullmatch(self.path.name)

    def check(self) -> None:
        """Reads all its files once; raises DamagedError where one is not as it was written."""
        if self.is_flat:
            flat.check(self.path)
        else:
            manifest.check(self.path)


def newest_first(root: pathlib.Path) -> list[Entry]:
    """All checkpoints, sound or not. Of one step the directory is before the flat files."""
    found = [(int(match[1]), path) for path in _names(root) if (match := _STEP.fullmatch(path.name))]
    entries = [Entry(step=step, path=path) for step, path in found]
    entries += [Entry(step=step, path=path) for step, path in flat.found(root)]
    return sorted(entries, key=lambda entry: (-entry.step, entry.is_flat))


def is_sound(root: pathlib.Path, step: int) -> bool:
    """Whether there is a checkpoint of this step whose files are as they were written."""
    for entry in newest_first(root):
        if entry.step == step:
            try:
                entry.check()
            except DamagedError:
                continue
            return True
    return False


def path_of(root: pathlib.Path, step: int) -> pathlib.Path:
    return root / f"step-{step:08d}"


def temporary(root: pathlib.Path, step: int) -> pathlib.Path:
    """A new, empty directory for the files of a checkpoint; `publish` gives it its name."""
    path = path_of(root, step).with_suffix(_TEMPORARY)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def publish(temporary: pathlib.Path) -> pathlib.Path:
    """Renames a checkpoint whose files are whole; returns its path. Raises OSError where there is one."""
    path = temporary.with_suffix("")
    temporary.rename(path)  # a directory that holds files is never replaced: rename(2)
    atomic_files.synchronise(path.parent)
    for each in _set_aside(path.parent, path.name):
        _delete(each)
    return path


def set_aside(entry: Entry) -> None:
    """Renames a damaged checkpoint, so that the run can save its step again; flat files stay."""
    if not entry.is_flat:
        number = len(_set_aside(entry.path.parent, entry.path.name))
        entry.path.rename(entry.path.with_name(f"{entry.path.name}{_DAMAGED}{number or ''}"))


def damaged_ones(root: pathlib.Path) -> list[pathlib.Path]:
    """What was set aside, oldest first: it was not saved again since."""
    return _set_aside(root, "step-")


def remove(entry: Entry) -> None:
    """Deletes a checkpoint. One that is half deleted is never taken for a damaged one."""
    if not entry.is_flat:
        _delete(entry.path)
        return
    flat.delete(entry.path)
    if not flat.found(entry.path.parent):
        (entry.path.parent / _TENSORFLOWS_LIST).unlink(missing_ok=True)


def sweep(root: pathlib.Path) -> None:
    """Deletes what a killed run left half written or half deleted.

    Raises InputError where something else stands in the directory's place: the run would begin anew.
    """
    if os.path.lexists(root) and not root.is_dir():
        raise InputError(
            f"checkpoints {root}",
            received="a file, or a link that leads nowhere",
            expected="a directory",
            action="Restore it from a copy; or remove it, and the same command begins anew.",
        )
    for path in list(_names(root)):
        if path.name.startswith("step-") and path.name.endswith(_TEMPORARY):
            _erase(path)


def _delete(path: pathlib.Path) -> None:
    doomed = path.with_name(f"{path.name}.old{_TEMPORARY}")
    path.rename(doomed)
    _erase(doomed)


def _erase(path: pathlib.Path) -> None:
    """Deletes it, whatever it is. What cannot be deleted does no harm: the next sweep tries again."""
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _set_aside(root: pathlib.Path, prefix: str) -> list[pathlib.Path]:
    return sorted(path for path in _names(root) if path.name.startswith(prefix) and _DAMAGED in path.name)


def _names(root: pathlib.Path) -> Iterator[pathlib.Path]:
    return root.iterdir() if root.is_dir() else iter(())

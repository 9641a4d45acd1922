"""The checkpoints in a directory: their names, and how they are published, set aside and deleted."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.base import directories, documents
from pipeline.base.directories import ChangedError
from pipeline.base.errors import InputError, shortage
from pipeline.training.state import continuation, run_record
from pipeline.training.state.run_record import RunRecord

_STEP = re.compile(r"step-(\d{8,})")
_TEMPORARY = ".tmp"  # ending of what a kill leaves half written or half deleted; the next run sweeps it
_DAMAGED = ".damaged"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A checkpoint's directory, sound or not."""

    step: int
    path: pathlib.Path

    def damage(self) -> str:
        """Reads all its files once; describes the first damaged one. Returns an empty string if none is
        damaged.
        """
        try:
            check_manifest(self.path)
        except DamagedError as error:
            return str(error)
        return ""


def newest_first(root: pathlib.Path) -> list[Entry]:
    """All checkpoints, sound or not."""
    found = [(int(match[1]), path) for path in _names(root) if (match := _STEP.fullmatch(path.name))]
    entries = [Entry(step=step, path=path) for step, path in found]
    return sorted(entries, key=lambda entry: -entry.step)


def is_sound(root: pathlib.Path, step: int) -> bool:
    """Returns whether there is a checkpoint of this step whose files are as they were written."""
    return any(entry.step == step and not entry.damage() for entry in newest_first(root))


def path_of(root: pathlib.Path, step: int) -> pathlib.Path:
    return root / f"step-{step:08d}"


def temporary(root: pathlib.Path, step: int) -> pathlib.Path:
    """Returns where a checkpoint's files are written; `publish_checkpoint` gives the directory its name."""
    return path_of(root, step).with_suffix(_TEMPORARY)


def publish_checkpoint(temporary: pathlib.Path) -> pathlib.Path:
    """Renames a checkpoint whose files are whole; returns its path. Raises OSError if one of this step
    exists.
    """
    path = temporary.with_suffix("")
    directories.rename(temporary, path)
    for each in _set_aside(path.parent, path.name):
        _delete(each)
    return path


def set_aside(entry: Entry) -> None:
    """Renames a damaged checkpoint, so that the run can save its step again."""
    number = len(_set_aside(entry.path.parent, entry.path.name))
    entry.path.rename(entry.path.with_name(f"{entry.path.name}{_DAMAGED}{number or ''}"))


def damaged_ones(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the checkpoints set aside and not saved again since, oldest first."""
    return _set_aside(root, "step-")


def remove_checkpoint(entry: Entry) -> None:
    """Deletes a checkpoint. One that is half deleted is never taken for a damaged one."""
    _delete(entry.path)


def sweep(root: pathlib.Path) -> None:
    """Deletes what a killed run left half written or half deleted.

    Raises InputError if something else stands in the directory's place: the run would begin from the start.
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
    directories.rename(path, doomed)
    _erase(doomed)


def _erase(path: pathlib.Path) -> None:
    """Deletes a path, whatever it is. If that fails, it does no harm: the next sweep tries again."""
    with contextlib.suppress(OSError):
        directories.erase(path)


def _set_aside(root: pathlib.Path, prefix: str) -> list[pathlib.Path]:
    return sorted(path for path in _names(root) if path.name.startswith(prefix) and _DAMAGED in path.name)


def _names(root: pathlib.Path) -> Iterator[pathlib.Path]:
    return root.iterdir() if root.is_dir() else iter(())


# --- Checkpoints that a run keeps, and the one that a command takes.


LAST, BEST = "last", "best"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept:
    """The newest `number` checkpoints and, where `metric` is given, the best one by it."""

    number: int
    metric: str = ""  # such as val_loss
    is_higher_better: bool = False

    def superseded(self, entries: Sequence[Entry]) -> list[Entry]:
        """Returns the entries, the newest first, that are not kept."""
        best = {entry.step for entry in self.best_first(entries)[:1]}
        return [entry for entry in entries[self.number :] if entry.step not in best]

    def usual(self, root: pathlib.Path) -> str:
        """Returns the default choice: the best checkpoint, if there is one."""
        return BEST if self.best_first(newest_first(root)) else LAST

    def best_first(self, entries: Sequence[Entry]) -> list[Entry]:
        """Returns the entries whose metric is known, best first; among equal ones, the earlier one is
        better.
        """
        known = [(value, entry) for entry in entries if (value := _metric(entry, self.metric)) is not None]
        sign = -1 if self.is_higher_better else 1
        return [entry for _, entry in sorted(known, key=lambda one: (sign * one[0], one[1].step))]


def chosen_to_keep(root: pathlib.Path, choice: str, *, kept: Kept, up_to: int | None = None) -> list[Entry]:
    """Returns the checkpoints that a command may take, in the order of choice: if one is damaged, the next is
    taken.

    Args:
      choice: `last`, `best` or a step, which only one checkpoint has.
      up_to: the most steps that a checkpoint may have; None: any.

    Raises:
      InputError: the run keeps no best checkpoint, or has none of that step.
    """
    entries = newest_first(root)
    if choice == LAST:
        return [entry for entry in entries if up_to is None or entry.step <= up_to]
    if choice == BEST:
        best = kept.best_first(entries)
        if not best:
            raise _error(
                root, choice, entries, "Train with --config.train.keep_best=val_loss to have a best one."
            )
        return best
    of_step = [entry for entry in entries if str(entry.step) == choice]
    if not of_step:
        raise _error(root, choice, entries, "Choose one of these, or --checkpoint=last.")
    return of_step


def all_damaged(root: pathlib.Path, choice: str, damage: Sequence[str]) -> InputError:
    """The error if all checkpoints that a command may take are damaged; `damage` describes the damage of
    each.
    """
    way_out = "train in an empty --workdir" if choice == LAST else f"take --checkpoint={LAST}"
    return InputError(
        f"checkpoints {root}",
        received=f"damaged files ({'; '.join(damage)})",
        expected="the files that the training run wrote there",
        action=f"Restore the files from a copy, or {way_out}.",
    )


def described(step: int, choice: str, *, kept: Kept) -> str:
    """Describes which checkpoint was taken."""
    words = {LAST: "the last one", BEST: f"the best by {kept.metric}"}
    return f"step {step:,}, {words.get(choice, 'as asked for')}"


def _metric(entry: Entry, name: str) -> float | None:
    if not name:
        return None
    try:
        value = read_manifest(entry.path).metrics.get(name)
    except DamagedError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _error(root: pathlib.Path, choice: str, entries: Sequence[Entry], action: str) -> InputError:
    steps = ", ".join(sorted({f"{entry.step}" for entry in entries}, key=int))
    return InputError(
        f"--checkpoint={choice}",
        received=f"checkpoints of the steps {steps} in {root}" if steps else f"no checkpoint in {root}",
        expected=f"{BEST}, {LAST} or one of these steps",
        action=action,
    )


# --- manifest.json, which names every file with its size and SHA-256. It is written last.
#
# It also says to which run and step the checkpoint belongs, and which metrics it has.


FILE_NAME = "manifest.json"
FORMAT = "penstock.checkpoint/1"
_INDENT = 1


class DamagedError(Exception):
    """Raised where a file of a checkpoint is not what was written; the message names it in a few words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """A checkpoint's description of itself."""

    step: int
    saved: str  # ISO 8601, UTC
    run: Mapping[str, object]  # identity of the run: see `identity_of_run`
    metrics: Mapping[str, float]  # metrics known at its step, such as val_loss; empty if no epoch ends there
    variables: Mapping[str, str]  # paths of variables by their names in TensorFlow's files
    files: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)  # bytes, sha256


def write_manifest(directory: pathlib.Path, manifest: Manifest) -> None:
    """Writes the manifest of all files in `directory`; afterwards these files, the manifest and the directory
    are on the disk.
    """
    files = directories.listed(directory)
    document = {"format": FORMAT, **dataclasses.asdict(manifest), "files": files}
    content = documents.dumps(documents.with_digest(document), indent=_INDENT)
    directories.commit(directory, FILE_NAME, content)


def read_manifest(directory: pathlib.Path) -> Manifest:
    """Reads only the manifest.

    Raises:
      DamagedError: it is missing, or not as it was written.
      InputError: it is of a format that this version does not know.
    """
    name = f"{directory.name}/{FILE_NAME}"
    try:
        document = documents.read(directory / FILE_NAME, indent=_INDENT)
    except FileNotFoundError:
        raise DamagedError(f"{name}: missing") from None
    except OSError as error:
        if shortage(error, is_repeated=True):  # otherwise a sound checkpoint would be set aside
            raise
        raise DamagedError(f"{name}: cannot be read ({error.strerror})") from None
    except documents.UNREADABLE as error:
        raise DamagedError(f"{name}: not as it was written ({error})") from None
    if document["format"] != FORMAT:
        raise InputError(
            f"checkpoint {directory}",
            received=f"format {document['format']}",
            expected=FORMAT,
            action="Use the version of Penstock that wrote it.",
        )
    return Manifest(**{field.name: document[field.name] for field in dataclasses.fields(Manifest)})


def check_manifest(directory: pathlib.Path) -> Manifest:
    """Reads all files once, and returns the manifest if they are as it says.

    Raises:
      DamagedError, InputError: as `read_manifest`; and a file is missing, shorter, longer or has other bytes.
    """
    manifest = read_manifest(directory)
    try:
        directories.check(directory, manifest.files)
    except ChangedError as error:
        raise DamagedError(f"{directory.name}/{error}") from None
    return manifest


# --- The identity of a checkpoint's run: another run must not continue from it, even if the variables fit.


_CONFIG = "config"


def identity_of_run(record: RunRecord, *, schema: str) -> dict[str, object]:
    """Returns a checkpoint's description of its run, in the form of JSON.

    Args:
      schema: fingerprint of the schema.
    """
    return {
        "dataset": record.dataset_digest,
        "schema": schema,
        "order": record.order,
        "update": record.update,
        "augmentation": record.augmentation,
        "precision": record.precision["policy"],
        "warm_start": record.warm_start.get("checkpoint", ""),
        "init": record.init.get("digest", ""),
        _CONFIG: continuation.bound(record.config),
    }


def require_same_run(saved: Mapping[str, object], now: Mapping[str, object], *, checkpoint: object) -> None:
    """Raises InputError if a checkpoint belongs to another run."""
    saved = {"init": "", **saved}
    of_config = continuation.differences(_of_today(saved.get(_CONFIG, {})), now.get(_CONFIG, {}))
    others = [(key, saved.get(key), now[key]) for key in now if key != _CONFIG and saved.get(key) != now[key]]
    for name, was, is_ in (*of_config, *others):
        raise InputError(
            f"checkpoint {checkpoint}, {name}",
            received=was,
            expected=f"{is_}, as in the run of this directory",
            action="Move the checkpoint of another run away, or train in an empty --workdir.",
        )


def _of_today(bound: Mapping[str, object]) -> dict[str, object]:
    """The config of an older checkpoint's run with all keys of today."""
    if "optimizer" not in bound:
        return dict(bound)
    later = {
        "init.without": run_record.LATER_KEYS["init"]["without"],
        **{key: run_record.LATER_KEYS[key] for key in ("loss", "train.frozen")},
    }
    return {**later, **bound, "optimizer": run_record.optimizer_of_today(bound["optimizer"])}


# --- JSON documents that also hold arrays: the arrays are taken out, and written as tensors.


_MARK = "$array"  # {"$array": 3} stands for array 3


def pack_nested(document: object) -> tuple[str, list[np.ndarray]]:
    """Returns the document as JSON, and copies of its arrays. Tuples become lists."""
    arrays: list[np.ndarray] = []

    def taken_out(value: object) -> dict[str, int]:
        if not isinstance(value, np.ndarray | np.generic):
            raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")
        arrays.append(np.array(value))
        return {_MARK: len(arrays) - 1}

    return json.dumps(document, default=taken_out), arrays


def unpack_nested(text: str, arrays: Sequence[np.ndarray]) -> object:
    """The inverse of `pack_nested`."""

    def put_back(value: dict) -> object:
        return arrays[value[_MARK]] if value.keys() == {_MARK} else value

    return json.loads(text, object_hook=put_back)

"""The run that gives another run its first weights: what is taken from it, and whether it fits.

A run keeps its own copy in `start/`, a working directory in small: run.json, schema, statistics, golden
records and one checkpoint. So it can continue, and be replayed, when the other run is gone.
"""

import contextlib
import dataclasses
import pathlib
import shutil
from collections.abc import Iterator, Mapping

from pipeline.base import directories, files
from pipeline.base.cli import flags
from pipeline.base.errors import InputError
from pipeline.data.schema import feature_json
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.training.state import checkpoints, continuation, run_record
from pipeline.training.state.checkpoints import Entry
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

FLAG = "--warm_start"

# Config keys that decide the shapes of the weights, and their meaning.
_SHAPING = (
    "model",
    "image_size",
    "image_dtype",
    "train.standardise_labels",
    "train.example_weights",
    "train.frozen",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """One checkpoint of a finished run.

    Attributes:
      source: the directory from which it is read: the working directory of the run, or the copy in a run that
        began with it.
      step: step of the checkpoint.
      recorded: the entry of run.json about it: `workdir` of the run; `step`; `checkpoint`, the SHA-256 of its
        manifest, which lists every file with its SHA-256; and `dataset_digest`, the digest of the data on
        which the run was trained.
      chosen: the step, and why it is that one, where that is known.
    """

    source: Workdir
    step: int
    recorded: Mapping[str, object]
    chosen: str = ""

    @property
    def checkpoint(self) -> pathlib.Path:
        return checkpoints.path_of(self.source.checkpoints, self.step)

    def __str__(self) -> str:
        return f"the weights of {self.recorded['workdir']}, {self.chosen or f'step {self.step:,}'}"


def finished_run(path: pathlib.Path, *, flag: str = FLAG) -> tuple[Workdir, RunRecord]:
    """The run at `path`; raises an InputError that names `flag` unless the run is finished and has a
    checkpoint.
    """
    run = Workdir(flags.absolute(path))
    record = run_record.read(run.run)
    if record is None:
        raise _unfit(flag, path, _what_is_there(run.path))
    if not record.finished:
        raise _unfit(
            flag, path, f"a run that is not finished, at step {record.steps:,} of {record.total_steps:,}"
        )
    if not checkpoints.newest_first(run.checkpoints):
        raise _unfit(flag, path, "a finished run without a checkpoint")
    run_record.check_files(run.path, record)
    return run, record


def start_of(run: Workdir, record: RunRecord, entry: Entry, *, flag: str = FLAG) -> Start:
    """Returns the start from one of the run's checkpoints; raises InputError if it is damaged."""
    if damage := entry.damage():
        raise _unfit(flag, run.path, f"a damaged checkpoint ({damage})")
    recorded = {
        "workdir": str(run.path),
        "step": entry.step,
        "checkpoint": files.sha256(entry.path / checkpoints.FILE_NAME),
        "dataset_digest": record.dataset_digest,
    }
    return Start(source=run, step=entry.step, recorded=recorded)


def own_copy(workdir: Workdir, before: RunRecord) -> Start | None:
    """Returns the copy of its start that a run keeps; None if it has none, or the copy was deleted."""
    if not before.warm_start or not workdir.start.run.exists():
        return None
    return Start(source=workdir.start, step=int(before.warm_start["step"]), recorded=before.warm_start)


def first_config(workdir: Workdir, given: pathlib.Path) -> Mapping[str, object] | None:
    """The config of the run at `given`, or of a continued run's copy of it; None if there is neither.

    Args:
      workdir: the directory of the run that begins with it.
    """
    found = next((each.run for each in (workdir.start, Workdir(given)) if each.run.is_file()), None)
    return run_record.read(found).config if found else None


def require_fitting(start: Start, config: Mapping, schema: Schema) -> None:
    """Raises InputError unless a model of this config, on data of this schema, has the same weights.

    Preprocessing is built from the statistics of the run that the weights come from. So vocabularies are the
    same if the features of both schemas are. A new value gets the id of unknown values.
    """
    differing = _differing(schema_lib.load(start.source.schema), schema)
    if differing:
        raise InputError(
            f"{FLAG}={start.recorded['workdir']}",
            received=f"a run of another schema: {differing[0]}",
            expected="the features of --dataset, each as it is there: weights belong to columns",
            action="Convert the data with the schema of that run, or train from scratch.",
        )
    was, is_ = continuation.bound(run_record.read(start.source.run).config), continuation.bound(config)
    for key, before, now in continuation.differences(was, is_):
        if key.startswith(_SHAPING):
            raise InputError(
                f"{FLAG}={start.recorded['workdir']}, --config.{key}",
                received=now,
                expected=f"{before}, as in the run that the weights come from",
                action="Take the config of that run, or train from scratch.",
            )


def keep(start: Start, workdir: Workdir) -> None:
    """Copies what is taken from the other run to `start/`, whole or not at all, unless it is already
    there.
    """
    source = start.source
    if source == workdir.start:
        return
    with renewed(workdir) as copy:
        shutil.copytree(start.checkpoint, checkpoints.path_of(copy.checkpoints, start.step))
        for name in (source.run, source.schema, source.statistics, source.golden, source.keras_file):
            # Only a model that is built from a `.keras` file has one.
            if name != source.keras_file or name.exists():
                shutil.copyfile(name, copy.path / name.name)


@contextlib.contextmanager
def renewed(workdir: Workdir) -> Iterator[Workdir]:
    """Yields an empty directory that becomes `start/` when the block ends; if it fails, nothing changes."""
    copy = workdir.start
    temporary = Workdir(copy.path.with_name(f"{copy.path.name}.tmp"))
    with directories.staged(temporary.path):
        yield temporary
        directories.synchronise(temporary.path)
    shutil.rmtree(copy.path, ignore_errors=True)  # removes the copy of a run that was killed before it began
    directories.rename(temporary.path, copy.path)


def _differing(before: Schema, now: Schema) -> list[str]:
    """Lists the differences between two schemas, as far as a model's columns depend on them."""
    was, is_ = _features(before), _features(now)
    return [
        *(f"it has no '{name}'" for name in is_ if name not in was),
        *(f"it has '{name}', which the dataset lacks" for name in was if name not in is_),
        *(f"feature '{name}' differs" for name in is_ if was.get(name, is_[name]) != is_[name]),
        *(["the features stand in another order"] if list(was) != list(is_) else []),
    ]


def _features(schema: Schema) -> dict[str, dict]:
    return {each.name: feature_json.feature_to_json(each, comments=False) for each in schema.features}


def _what_is_there(path: pathlib.Path) -> str:
    if (path / "export.json").exists():
        return "an exported model, which has no checkpoint"
    return "a directory without run.json" if path.is_dir() else "no such directory"


def _unfit(flag: str, path: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"{flag}={path}",
        received=received,
        expected="the working directory of a finished training run, with a sound checkpoint",
        action="Name the --workdir of the run that the model was exported from, or train from scratch.",
    )

"""Checkpoints of a run: model, optimizer, averages of weights, random state, session. A checkpoint is written
as a whole or not at all.

No position of the input is saved: it is `step * global_batch`, and the input is a function of that. Training
goes on while the files of a checkpoint are written.
"""

import contextlib
import dataclasses
import datetime
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base import directories, files
from pipeline.base.errors import InputError, disk_full, disk_is_full, shortage
from pipeline.data.preprocessing.preprocess import LabelScale
from pipeline.training.loop.bad_steps import not_finite
from pipeline.training.state import checkpoints, golden
from pipeline.training.state.checkpoints import (
    LAST,
    DamagedError,
    Entry,
    Kept,
    Manifest,
    all_damaged,
    chosen_to_keep,
)

Variable = keras.Variable | tf.Variable

SESSION_FILE = "session.json"
_GOLDEN, _ARRAYS = "golden", "session"  # names of tensors that are not variables
_ANY = Kept(number=3)
_WITHOUT_UNIT = LabelScale()


class Checkpoints:
    """Saves and restores a run in `root`.

    Args:
      optimizer: None where the model is only used: then nothing in `root` is changed.
      ema: averages of weights, if the run keeps some.
      golden_logits: function () → float32 [records, outputs], the model's logits of the golden records.
      scale: scale of the labels, by which differences of golden logits are measured.
      run: identity of the run that checkpoints carry: see `identity_of_run`.
      counts_on: other files that a resumed run needs unchanged; they are written to the disk first.
      worker: this process's number. Only 0, the chief, writes.
      latest: function from the newest step that this process knows to the newest step of all processes that
        train together.
    """

    def __init__(
        self,
        root: pathlib.Path,
        *,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None = None,
        ema: Sequence[Variable] = (),
        golden_logits: Callable[[], np.ndarray],
        scale: LabelScale = _WITHOUT_UNIT,
        run: Mapping[str, object] | None = None,
        kept: Kept = _ANY,
        counts_on: Sequence[pathlib.Path] = (),
        worker: int = 0,
        latest: Callable[[int], int] = lambda step: step,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._root, self._optimizer = root, optimizer
        optional = {"optimizer": optimizer.variables if optimizer else (), "ema": ema}
        # `variables` has the random state of dropout, which Keras keeps out of `weights` (3.15, measured).
        self._variables = Variables(
            groups={"model": model.variables, **{name: some for name, some in optional.items() if some}}
        )
        self._golden_logits, self._scale = golden_logits, scale
        self._run = dict(run or {})
        self._kept = kept
        self._worker = worker
        self._latest = latest
        self._clock = clock
        self._saving = Saving(
            root, run=self._run, paths=self._variables.paths(), kept=kept, counts_on=counts_on, clock=clock
        )
        self.damaged: tuple[str, ...] = ()  # checkpoints that `restore` could not read, and why
        self.blocked_s: list[float] = []  # seconds that each save kept training waiting

    @property
    def newest(self) -> int:
        """Step of the newest checkpoint that is whole; 0: there is none."""
        return self._saving.newest

    @property
    def written_s(self) -> float:
        """Seconds that writing took, while training went on."""
        return self._saving.seconds

    @property
    def cost(self) -> str:
        """A line that says how much time saving has cost this process."""
        longest, total = max(self.blocked_s, default=0.0), sum(self.blocked_s)
        return (
            f"checkpoints: {len(self.blocked_s)} written in {self.written_s:.1f} s beside training, "
            f"which waited {total:.2f} s for them, {longest:.2f} s at most"
        )

    def finish(self) -> None:
        """Waits until what was saved is on the disk; raises InputError where it could not be written.

        All workers of a run must call it, so that all know what the chief has written.
        """
        self._saving.finish()
        self._saving.newest = self._latest(self._saving.newest)

    def close(self) -> None:
        """Waits as `finish` does, but raises nothing, because something else has ended the run."""
        self._saving.close()

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float] | None = None) -> None:
        """Saves the state after `step` steps; returns when it is copied, before it is written.

        Args:
          session: what the session needs to go on: JSON that may hold arrays.
          metrics: the metrics known at this step.

        Raises:
          InputError: a value is not finite; or the checkpoint before could not be written.
        """
        start = self._clock()
        self.finish()
        values = self._variables.copied()
        bad = self._variables.not_finite(values)
        if bad:
            infinite = "values that are infinite or not a number"
            raise not_finite(f"weight {bad} after step {step}", infinite, newest=self.newest)
        text, arrays = checkpoints.pack_nested(session)
        values |= {f"{_ARRAYS}/{number:04d}": array for number, array in enumerate(arrays)}
        values[_GOLDEN] = self._golden_logits()
        if not self._worker:
            self._saving.start(step, values, session=text, metrics=dict(metrics or {}))
        self.blocked_s.append(self._clock() - start)

    def restore(self, *, choice: str = LAST, up_to: int | None = None) -> tuple[int, dict]:
        """Restores a checkpoint; returns its step and what the session saved, (0, {}) if there is none.

        If the first choice is damaged, the next one is taken; `damaged` says so.

        Args:
          choice: `last`, `best` or a step.
          up_to: the most steps that it may have; None: any.

        Raises:
          InputError: all are damaged; or the checkpoint belongs to another model or run, or its predictions
            of the golden records differ from the saved ones.
        """
        candidates = chosen_to_keep(self._root, choice, kept=self._kept, up_to=up_to)
        self.damaged = ()
        damaged: list[Entry] = []
        for entry in candidates:
            try:
                session, saved = self._read(entry)
            except DamagedError as error:
                # The run that writes here has deleted it.
                if entry not in checkpoints.newest_first(self._root):
                    return self.restore(choice=choice, up_to=up_to)
                self.damaged += (str(error),)
                damaged.append(entry)
                continue
            now = np.asarray(self._golden_logits())
            golden.check(saved=saved, now=now, checkpoint=str(entry.path), scale=self._scale)
            self._saving.newest = entry.step
            self._tidy(damaged)
            return entry.step, session
        aside = [path.name for path in checkpoints.damaged_ones(self._root)] if up_to is None else []
        if self.damaged or aside:
            found = [*self.damaged, *(f"{name}: set aside before" for name in aside)]
            raise all_damaged(self._root, choice, found)
        self._tidy([])
        return 0, {}

    def _read(self, entry: Entry) -> tuple[dict, np.ndarray]:
        """Restores the variables; returns what the session saved, and the saved logits."""
        found = checkpoints.check_manifest(entry.path)
        checkpoints.require_same_run(found.run, self._run, checkpoint=entry.path)
        values, text = _content(entry)
        self._variables.assign(values, checkpoint=entry.path)
        arrays = [values[name] for name in sorted(values) if name.startswith(f"{_ARRAYS}/")]
        return checkpoints.unpack_nested(text, arrays), values[_GOLDEN]

    def _tidy(self, damaged: Sequence[Entry]) -> None:
        """Makes room for the checkpoints of this run, if this process writes."""
        if self._optimizer and not self._worker:
            checkpoints.sweep(self._root)
            for entry in damaged:
                checkpoints.set_aside(entry)


def _content(entry: Entry) -> tuple[dict[str, np.ndarray], str]:
    """Tensors and session of files that were sound just now; raises DamagedError where they are gone."""
    try:
        return load_tensors(entry.path), (entry.path / SESSION_FILE).read_text()
    except (OSError, ValueError, tf.errors.OpError) as error:
        if shortage(error, is_repeated=True):
            raise
        raise DamagedError(f"{entry.path.name}: {str(error).splitlines()[0]}") from None


# --- Variables by their place: copied between two steps, and put back.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variables:
    """Variables by their owner, such as `model` and `optimizer`, always in the same order.

    Names that Keras gives depend on what a process built before. So a variable is known by its place.
    """

    groups: Mapping[str, Sequence[Variable]]

    def paths(self) -> dict[str, str]:
        """Returns Keras's path of each variable, by its name in a checkpoint."""
        return {name: getattr(each, "path", each.name) for name, each in self._named().items()}

    def copied(self) -> dict[str, np.ndarray]:
        """The present values. All replicas have the same ones; the first replica's are taken."""
        return {name: tf.convert_to_tensor(each).numpy() for name, each in self._named().items()}

    def assign(self, values: Mapping[str, np.ndarray], *, checkpoint: object) -> None:
        """Sets them, all or none.

        Raises:
          InputError: a value is missing, or has another shape or dtype; or a group has more values.
        """
        named = self._named()
        spare = [name for name in values if name.partition("/")[0] in self.groups and name not in named]
        problems = [problem for name, each in named.items() if (problem := _misfit(name, each, values))]
        problems += [f"{name}, which the model here does not have" for name in spare]
        if problems:
            raise InputError(
                f"checkpoint {checkpoint}",
                received=f"content that does not fit this model ({problems[0]})",
                expected="variables of the same number, shapes and types",
                action="Train in an empty --workdir, or with the config that this one was started with.",
            )
        for name, each in named.items():
            each.assign(values[name])

    def not_finite(self, values: Mapping[str, np.ndarray]) -> str:
        """The path of the first variable whose value is infinite or not a number; empty where none is."""
        paths = self.paths()
        return next((paths[name] for name, value in values.items() if not _is_finite(value)), "")

    def _named(self) -> dict[str, Variable]:
        return {
            f"{group}/{number:04d}": each
            for group, variables in self.groups.items()
            for number, each in enumerate(variables)
        }


def _misfit(name: str, variable: Variable, values: Mapping[str, np.ndarray]) -> str:
    path = f"{name}, {getattr(variable, 'path', variable.name)}"
    if name not in values:
        return f"no {path}"
    is_, was = (tuple(variable.shape), tf.as_dtype(variable.dtype).name), values[name]
    if is_ != (was.shape, tf.as_dtype(was.dtype).name):
        return f"{path}: {was.dtype} {list(was.shape)} where the model here has {is_[1]} {list(is_[0])}"
    return ""


def _is_finite(value: np.ndarray) -> bool:
    if not tf.as_dtype(value.dtype).is_floating:
        return True
    with np.errstate(all="ignore"):
        # The sum takes one pass and no copy: it is finite if all values are, unless large values overflow.
        return bool(np.isfinite(np.sum(value))) or bool(np.all(np.isfinite(value)))


# --- Writing beside training, one checkpoint at a time.


class Saving:
    """Writes to `root` in a thread, and deletes what is no longer kept.

    An error of the thread is raised by the next `finish`.

    Args:
      run: identity of the run that checkpoints carry: see `identity_of_run`.
      counts_on: files that a restored run needs unchanged since a checkpoint was saved, if they exist.
      paths: Keras's paths of the variables, by their names in a checkpoint.
    """

    def __init__(
        self,
        root: pathlib.Path,
        *,
        run: Mapping[str, object],
        paths: Mapping[str, str],
        kept: Kept,
        counts_on: Sequence[pathlib.Path] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._root, self._run, self._paths, self._kept = root, run, paths, kept
        self._counts_on, self._clock = counts_on, clock
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.seconds = 0.0  # seconds that writing has taken so far
        self.newest = 0  # step of the newest checkpoint that is whole; 0: there is none

    def start(
        self, step: int, values: Mapping[str, np.ndarray], *, session: str, metrics: Mapping[str, float]
    ) -> None:
        """Begins to write values that nobody changes any more; call `finish` before.

        Args:
          values: variables and other tensors.
          session: JSON.
        """
        self._wait()
        # The thread is a daemon, so a process that must end does not wait for it.
        self._thread = threading.Thread(
            target=self._write_timed, args=[step, values, session, metrics], daemon=True
        )
        self._thread.start()

    def finish(self) -> None:
        """Waits until what was begun is on the disk.

        Raises:
          InputError: it could not be written.
        """
        try:
            self._wait()
        except (OSError, tf.errors.OpError) as error:
            raise self._not_written(error) from None

    def close(self) -> None:
        """Waits as `finish` does, but raises no error, because something else has ended the run."""
        with contextlib.suppress(Exception):
            self._wait()

    def _wait(self) -> None:
        if self._thread:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error:
            raise error

    def _write_timed(self, *content: object) -> None:
        start = self._clock()
        try:
            self._write(*content)
        except BaseException as error:
            self._error = error
        self.seconds += self._clock() - start

    def _write(
        self, step: int, values: Mapping[str, np.ndarray], session: str, metrics: Mapping[str, float]
    ) -> None:
        with directories.staged(checkpoints.temporary(self._root, step)) as temporary:
            save_tensors(temporary, values)
            (temporary / SESSION_FILE).write_text(session)
            described = Manifest(
                step=step,
                saved=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                run=self._run,
                metrics=metrics,
                variables=self._paths,
            )
            for path in filter(pathlib.Path.exists, self._counts_on):
                files.synchronise(path)
            checkpoints.write_manifest(temporary, described)
            checkpoints.publish_checkpoint(temporary)
        self.newest = step
        for entry in self._kept.superseded(checkpoints.newest_first(self._root)):
            checkpoints.remove_checkpoint(entry)

    def _not_written(self, error: Exception) -> InputError:
        thing = f"checkpoints {self._root}"
        goes_on = f"goes on from step {self.newest:,}" if self.newest else "begins anew"
        action = f"the same command {goes_on}."
        if disk_is_full(error):
            return disk_full(thing, room_for="a checkpoint", action=f"Make room; {action}")
        return InputError(
            thing,
            received=f"an error when a checkpoint was written ({str(error).splitlines()[0]})",
            expected="a directory that takes files",
            action=f"Correct that; {action}",
        )


# --- Arrays in TensorFlow's checkpoint files, which `tf.train.load_checkpoint` reads anywhere.


_PREFIX = "variables"


def save_tensors(directory: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes the arrays; raises tf.errors.OpError where the disk takes no more."""
    with tf.device("CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=str(directory / _PREFIX),
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=list(arrays.values()),
        )


def load_tensors(directory: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(directory / _PREFIX))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

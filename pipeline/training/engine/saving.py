"""Writes checkpoints while training goes on, one at a time."""

import contextlib
import dataclasses
import datetime
import pathlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base import directories, files
from pipeline.base.errors import InputError, disk_full, disk_is_full
from pipeline.training.state import checkpoints
from pipeline.training.state.checkpoints import Kept, Manifest

SESSION_FILE = "session.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Content:
    """What a checkpoint holds, copied: nothing changes it while it is written."""

    step: int
    values: Mapping[str, np.ndarray]  # variables and other tensors
    session: str  # JSON
    metrics: Mapping[str, float]


class Saving:
    """Writes to `root`, and deletes what is no longer kept.

    Args:
      run: of which run checkpoints say that they are: see identity.py.
      counts_on: files that a restored run needs as they were when a checkpoint was saved, if they are there.
      paths: what Keras calls the variables, by their names in `Content.values`.
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
        self._counts_on = counts_on
        self._background = Background(clock=clock)
        self.newest = 0  # step of the newest checkpoint that is whole; 0: there is none

    @property
    def seconds(self) -> float:
        """What writing has taken so far."""
        return self._background.seconds

    def start(self, content: Content) -> None:
        """Begins to write; call `finish` before."""
        self._background.start(lambda: self._write(content))

    def finish(self) -> None:
        """Waits until what was begun is on the disk.

        Raises:
          InputError: it could not be written.
        """
        try:
            self._background.wait()
        except (OSError, tf.errors.OpError) as error:
            raise self._not_written(error) from None

    def close(self) -> None:
        """Waits as `finish` does; something else has ended the run, so no error is raised."""
        with contextlib.suppress(Exception):
            self._background.wait()

    def _write(self, content: Content) -> None:
        with directories.staged(checkpoints.temporary(self._root, content.step)) as temporary:
            save_tensors(temporary, content.values)
            (temporary / SESSION_FILE).write_text(content.session)
            described = Manifest(
                step=content.step,
                saved=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                run=self._run,
                metrics=content.metrics,
                variables=self._paths,
            )
            for path in filter(pathlib.Path.exists, self._counts_on):
                files.synchronise(path)
            checkpoints.write_manifest(temporary, described)
            checkpoints.publish_checkpoint(temporary)
        self.newest = content.step
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


# --- One piece of work at a time, done beside the main thread.


class Background:
    """Runs work in a thread. An error in it is raised by the next `wait`."""

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.seconds = 0.0  # that work has taken so far

    def start(self, work: Callable[[], None]) -> None:
        """Waits for the work before, then returns at once."""
        self.wait()
        # A daemon: a process that is told to end does not wait for it.
        self._thread = threading.Thread(target=self._run, args=[work], daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Returns when nothing is under way; raises what went wrong in it, once."""
        if self._thread:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error:
            raise error

    def _run(self, work: Callable[[], None]) -> None:
        start = self._clock()
        try:
            work()
        except BaseException as error:
            self._error = error
        self.seconds += self._clock() - start


# --- Arrays in TensorFlow's checkpoint files: `variables.index` and `variables.data-00000-of-00001`.
#
# `tf.train.load_checkpoint` reads them without anything of this project.


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
    """The arrays of sound files, by name."""
    reader = tf.train.load_checkpoint(str(directory / _PREFIX))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

"""The config of a run for TensorBoard's HParams page, beside the curves in `<workdir>/summaries`.

`tensorboard --logdir=FOLDER` on a folder of runs then has a table of settings and results.
"""

import pathlib
import time
from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline.base.values import leaves
from pipeline.training.observers.observer import Observer, Place, Point, name_of
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

# Left out, because no column can hold lists of structures.
_NO_SETTINGS = ("callbacks", "observers", "mixture")


class HParams(Observer):
    """Writes the settings once, and at the end of the run how it ended.

    The metrics are those that the curves show: TensorBoard takes them from `train` and `evaluation` below.

    Args:
      keys: keys of the config that become columns, such as ("optimizer.learning_rate",); empty: all keys that
        have a value.
    """

    def __init__(self, *, keys: Sequence[str] = ()) -> None:
        self._keys = frozenset(keys)
        self._folder: pathlib.Path | None = None

    def started(self, record: RunRecord, place: Place, history: Sequence[Point]) -> None:
        from tensorboard.plugins.hparams import summary_v2

        self._folder = Workdir(place.workdir).summaries
        written = {key: value for key, value in leaves(record.config) if self._is_column(key, value)}
        if place.recall() == {"written": sorted(written)}:
            return
        found = summary_v2.hparams_pb(
            {key: _cell(value) for key, value in written.items()}, name_of(record, place)
        )
        self._write(found)
        place.remember(written=sorted(written))

    def finished(self, steps: int, evaluation: Mapping[str, object], report: pathlib.Path) -> None:
        self._end("STATUS_SUCCESS")

    def failed(self, error: str, *, was_asked: bool) -> None:
        if not was_asked:
            self._end("STATUS_FAILURE")

    def _is_column(self, key: str, value: object) -> bool:
        if self._keys:
            return key in self._keys
        return value not in ("", None, (), [], {}) and key.partition(".")[0] not in _NO_SETTINGS

    def _end(self, status: str) -> None:
        from tensorboard.plugins.hparams import api_pb2, summary

        self._write(summary.session_end_pb(getattr(api_pb2, status), time.time()))

    def _write(self, found: object) -> None:
        writer = tf.summary.create_file_writer(str(self._folder))
        with writer.as_default(step=0):
            tf.summary.experimental.write_raw_pb(found.SerializeToString(), step=0)
        writer.close()


def _cell(value: object) -> float | bool | str:
    return value if isinstance(value, bool | int | float | str) else str(value)

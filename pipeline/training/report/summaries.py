"""TensorBoard summaries of a run: `tensorboard --logdir=<workdir>/summaries`."""

import pathlib
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.errors import InputError


class Summaries:
    """Writes log points (the lines of history.jsonl), training and evaluation as two runs of one chart."""

    def __init__(self, directory: pathlib.Path) -> None:
        try:
            self._training = tf.summary.create_file_writer(str(directory / "train"))
            self._evaluation = tf.summary.create_file_writer(str(directory / "evaluation"))
        except tf.errors.OpError as error:
            raise InputError(
                f"summaries {directory}",
                received=error.message,
                expected="a directory that can be written to",
                action="Remove what stands there; the same command goes on from the last checkpoint.",
            ) from None

    def write(self, point: Mapping) -> None:
        """Writes the numbers of one log point."""
        _write(self._training, point, point["step"])
        _write(self._evaluation, point.get("validation", {}), point["step"])

    def close(self) -> None:
        """Closes the files."""
        self._training.close()
        self._evaluation.close()


def _float32(value: float) -> np.float32:
    """What TensorBoard draws: TensorFlow refuses a Python float beyond float32, as squared errors can be."""
    with np.errstate(over="ignore"):
        return np.float32(value)


def _write(writer: tf.summary.SummaryWriter, numbers: Mapping, step: int) -> None:
    with writer.as_default(step=step):
        for name, value in numbers.items():
            if isinstance(value, float):
                tf.summary.scalar(name, _float32(value))
    writer.flush()

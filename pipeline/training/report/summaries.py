"""TensorBoard summaries of a run: `tensorboard --logdir=<workdir>/summaries`."""

import pathlib
from collections.abc import Mapping

import tensorflow as tf


class Summaries:
    """Writes log points (the lines of history.jsonl), training and evaluation as two runs of one chart."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._training = tf.summary.create_file_writer(str(directory / "train"))
        self._evaluation = tf.summary.create_file_writer(str(directory / "evaluation"))

    def write(self, point: Mapping) -> None:
        """Writes the numbers of one log point."""
        _write(self._training, point, point["step"])
        _write(self._evaluation, point.get("validation", {}), point["step"])

    def close(self) -> None:
        """Closes the files."""
        self._training.close()
        self._evaluation.close()


def _write(writer: tf.summary.SummaryWriter, numbers: Mapping, step: int) -> None:
    with writer.as_default(step=step):
        for name, value in numbers.items():
            if isinstance(value, float):
                tf.summary.scalar(name, value)
    writer.flush()

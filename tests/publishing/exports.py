"""Writes SavedModels that answer with their number: `python -m tests.publishing.exports FOLDER COUNT`."""

import pathlib
import sys

import tensorflow as tf

from tests.publishing import story
from tests.shared import plain_export


class Numbered(tf.Module):
    """Knows one number, which lies in its variables."""

    def __init__(self, number: int) -> None:
        self.number = tf.Variable(number, dtype=tf.int64)

    @tf.function(input_signature=[])
    def told(self) -> tf.Tensor:
        return self.number.read_value()


def main() -> None:
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    for number in range(1, count + 1):
        export = folder / story.cycle(number)
        tf.saved_model.save(Numbered(number), str(export))
        plain_export.listed(export)


if __name__ == "__main__":
    main()

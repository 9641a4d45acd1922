"""Replays the golden batch of an exported model in this process: `python -m pipeline.exporting.replay DIR`.

The export runs it in a fresh process, where no layer, table or policy of the training process can help the
SavedModel.
"""

import pathlib
import sys
from collections.abc import Mapping, Sequence

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError, answers_bad_input
from pipeline.data.dataset.records import GOLDEN_EXAMPLES, RAW, SERVING_DEFAULT
from pipeline.data.reading import parsing
from pipeline.data.schema import schema as schema_lib
from pipeline.exporting.raw_inputs import raw_inputs
from pipeline.report.comparison import differing_rows, largest_difference

GOLDEN_PREDICTIONS = "golden.npz"


def replay(directory: pathlib.Path) -> None:
    """Raises InputError where a signature's output differs in a single bit from the golden predictions."""
    model = tf.saved_model.load(str(directory))
    examples = golden_examples(directory)
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    features = tf.io.parse_example(examples, parsing.parsing_spec(schema, with_label=False))
    expected = dict(np.load(directory / GOLDEN_PREDICTIONS))
    _compare(SERVING_DEFAULT, model.signatures[SERVING_DEFAULT](examples=examples), expected)
    _compare(RAW, model.signatures[RAW](**raw_inputs(features, schema)), expected)


def golden_examples(directory: pathlib.Path) -> tf.Tensor:
    """Returns the serialized golden examples, string [batch]."""
    records = tf.data.TFRecordDataset(str(directory / GOLDEN_EXAMPLES))
    return tf.constant([record.numpy() for record in records])


def _compare(signature: str, outputs: Mapping[str, tf.Tensor], expected: Mapping[str, np.ndarray]) -> None:
    for name, golden in expected.items():
        output = outputs[name].numpy()
        if differing_rows(output, golden).any():
            worst = largest_difference(output, golden)
            raise InputError(
                f"signature '{signature}', output '{name}'",
                received=f"{output.dtype} values that differ by up to {worst:.3g}",
                expected="the golden predictions, bit for bit",
                action="Do not use this export.",
            )


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    replay(pathlib.Path(argv[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv))

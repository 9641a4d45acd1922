"""Replays the golden batch of an exported model in this process: `python -m pipeline.exporting.replay DIR`.

The export runs it in a fresh process, where no layer, table or policy of the training process can help the
SavedModel, or Keras with `model.keras`. It begins when its stdin ends: until then the export is being
written. The last line that it prints is what it found of `model.keras`, as JSON.
"""

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError, answers_bad_input
from pipeline.data.dataset.records import GOLDEN_EXAMPLES, MODEL_INPUTS, PREPARED, RAW, SERVING_DEFAULT
from pipeline.data.reading import parsing
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.data.schema.schema import Schema
from pipeline.exporting import keras_file, recording
from pipeline.exporting.raw_inputs import raw_inputs, raw_names
from pipeline.exporting.runtimes import KERAS_FILE
from pipeline.report.comparison import differing_rows, largest_difference
from pipeline.training.tasks.registry import task_of

GOLDEN_PREDICTIONS = "golden.npz"
_TOGETHER = ("image", "numeric", "categories")  # inputs of a model that do not have the name of a feature


def replay(directory: pathlib.Path) -> dict:
    """Replays all signatures, and `model.keras`; returns what export.json says about that file.

    Raises:
      InputError: a signature's output differs in a single bit from the golden predictions.
    """
    model = tf.saved_model.load(str(directory))
    examples = golden_examples(directory)
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    features = tf.io.parse_example(examples, parsing.parsing_spec(schema, with_label=False))
    expected = golden_predictions(directory)
    _compare(SERVING_DEFAULT, model.signatures[SERVING_DEFAULT](examples=examples), expected)
    raw = raw_inputs(features, schema)
    _compare(RAW, model.signatures[RAW](**raw), expected)
    prepared = model.signatures[MODEL_INPUTS](**raw)
    _compare(PREPARED, model.signatures[PREPARED](**prepared), expected)
    return _replay_keras(directory / KERAS_FILE, prepared, schema, expected)


def _replay_keras(
    path: pathlib.Path, prepared: Mapping[str, tf.Tensor], schema: Schema, expected: Mapping[str, np.ndarray]
) -> dict:
    """Loads the file as anybody does, and compares its predictions with the golden ones."""
    try:
        model = keras_file.load(path)
        own = {given: name for name, given in raw_names(schema).items() if given not in _TOGETHER}
        inputs = {own.get(given, given): values for given, values in prepared.items()}
        part, task = task_of(schema.label).split(model)
        logits = tf.function(lambda: part(inputs, training=False), autograph=False)()
    except Exception as error:  # a model's own code may raise anything
        return {"left_out": keras_file.reason(error)}
    golden = expected[LABEL_TASKS[schema.label.task].output]
    answers = task.answers(schema.label, inputs, logits).numpy()
    share = largest_difference(answers, golden) / (float(np.abs(golden).max(initial=0.0)) or 1.0)
    if not share <= recording.tolerance(model):
        return {"left_out": f"Keras loads it, and its predictions differ by {share:.3g} of the largest"}
    return {
        "file": path.name,
        "custom_objects": keras_file.custom_objects(path),
        "largest_difference": share,
    }


def golden_examples(directory: pathlib.Path) -> tf.Tensor:
    """Returns the serialized golden examples, string [batch]."""
    records = tf.data.TFRecordDataset(str(directory / GOLDEN_EXAMPLES))
    return tf.constant([record.numpy() for record in records])


def save_golden_predictions(predictions: Mapping[str, tf.Tensor], directory: pathlib.Path) -> None:
    """Writes predictions by the names of the outputs; text as bytes of one length, which need no pickle."""
    arrays = {name: values.numpy() for name, values in predictions.items()}
    arrays = {name: each.astype("S") if each.dtype.hasobject else each for name, each in arrays.items()}
    np.savez(directory / GOLDEN_PREDICTIONS, **arrays)


def golden_predictions(directory: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns what `save_golden_predictions` wrote; text as bytes objects."""
    found = dict(np.load(directory / GOLDEN_PREDICTIONS))
    return {name: each.astype(object) if each.dtype.kind == "S" else each for name, each in found.items()}


def _compare(signature: str, outputs: Mapping[str, tf.Tensor], expected: Mapping[str, np.ndarray]) -> None:
    for name, golden in expected.items():
        output = outputs[name].numpy()
        if differing_rows(output, golden).any():
            differ = "texts that differ"
            if not golden.dtype.hasobject:
                differ = (
                    f"{output.dtype} values that differ by up to {largest_difference(output, golden):.3g}"
                )
            raise InputError(
                f"signature '{signature}', output '{name}'",
                received=differ,
                expected="the golden predictions, bit for bit",
                action="Do not use this export: export the model again.",
            )


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    sys.stdin.read()
    print(json.dumps(replay(pathlib.Path(argv[1]))))


if __name__ == "__main__":
    sys.exit(main(sys.argv))

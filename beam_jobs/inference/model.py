"""Runs an exported model on batches, through the signature that serves it.

Beam's own TensorFlow handler calls `tf.keras.models.load_model`, which cannot read a Keras 3 export.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from apache_beam.ml.inference.base import ModelHandler

from beam_jobs.inference.batches import Batch
from pipeline.base.errors import InputError
from pipeline.data.dataset.records import SERVING_DEFAULT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicted:
    """The model's answer to a Batch: `outputs` float32 or bytes objects, [rows, …] each."""

    input_split: int
    ordinal: int
    keys: bytes
    outputs: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        return len(next(iter(self.outputs.values())))


class ExportedModel(ModelHandler[Batch, Predicted, object]):
    """The model for `RunInference`; `directory` is what `python -m pipeline.export` wrote."""

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._directory = directory

    def load_model(self) -> object:
        # TensorFlow is needed only on workers that run the model.
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

        # isort: split
        import tensorflow as tf

        return tf.saved_model.load(self._directory)

    def run_inference(
        self, batch: Sequence[Batch], model: object, inference_args: Mapping[str, object] | None = None
    ) -> Iterator[Predicted]:
        import tensorflow as tf

        serve = model.signatures[SERVING_DEFAULT]
        for rows in batch:
            examples = tf.constant(np.array(rows.examples, object), tf.string)
            outputs = {name: value.numpy() for name, value in serve(examples=examples).items()}
            _check_finite(outputs, rows.keys)
            yield Predicted(
                input_split=rows.input_split, ordinal=rows.ordinal, keys=rows.keys, outputs=outputs
            )

    def batch_elements_kwargs(self) -> Mapping[str, object]:
        # An element is a batch already.
        return {"min_batch_size": 1, "max_batch_size": 1}

    def get_num_bytes(self, batch: Sequence[Batch]) -> int:
        return sum(len(example) for rows in batch for example in rows.examples)


def _check_finite(outputs: Mapping[str, np.ndarray], keys: bytes) -> None:
    for name, values in outputs.items():
        wrong = [] if values.dtype.hasobject else np.argwhere(~np.isfinite(values))
        if len(wrong):
            row = _named(keys, wrong[0][0])
            raise InputError(
                f"the model's output '{name}'",
                received=f"{len(wrong):,} values that are NaN or infinite, first for {row}",
                expected="finite numbers",
                action="Nothing was published. Correct that row, or leave it out; if it is as it should be, "
                "correct the model and export it again.",
            )


def _named(keys: bytes, row: int) -> str:
    """A row of a batch by its keys or, without any, its source and number."""
    [batch] = pa.ipc.open_stream(keys)
    return ", ".join(f"{key} {value}" for key, value in batch.slice(row, 1).to_pylist()[0].items())

"""Files of a model for other runtimes than TensorFlow's, beside its SavedModel: LiteRT and ONNX.

They compute in float32, whatever the model was trained in. Where requests hold only numbers, preprocessing is
inside if the format has its operations. Otherwise a file takes the result of preprocessing, as the signature
`model_inputs` gives it. Each file is run by its own runtime, in a process without TensorFlow.
"""

import dataclasses
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.records import PREPARED, RAW
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.schema import Schema
from pipeline.exporting import runtimes
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.conversion import Function, UnsuitableError, convert
from pipeline.exporting.runtimes import RUNTIMES, Runtime
from pipeline.report.comparison import largest_difference

TOLERANCE = 1e-5  # as a share of the largest number; sums in float32 in another order differ by less

_NARROW = ("bfloat16", "float16")
_NARROW_POLICY = re.compile(r'"(?:mixed_)?b?float16"')  # policies narrower than float32 in a config
_Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Golden:
    """Inputs [rows, …] by signature and name, and the SavedModel's predictions for them, [rows, …] by name.

    `tolerance`: how far float32 may be from these predictions, as a share of the largest number.
    """

    inputs: Mapping[str, _Arrays]
    predictions: _Arrays
    tolerance: float


def write(
    formats: Sequence[str],
    directory: pathlib.Path,
    *,
    model: keras.Model,
    preprocess: Preprocess,
    schema: Schema,
    golden: Golden,
    scratch: pathlib.Path,
) -> dict[str, dict]:
    """Writes a file for each format into `directory`; returns what export.json says about them, by format.

    Args:
      scratch: a directory for temporary files.

    Raises:
      InputError: a format lacks an operation of the model, or its runtime gives other predictions.
    """
    if schema.label.is_retrieval:
        raise InputError(
            "--format",
            received=f"{', '.join(formats)}, of a model that returns the names of items (task retrieval)",
            expected="none: other runtimes have no text",
            action="Leave the format out: the SavedModel and model.keras are always there.",
        )
    wide = in_float32(model)
    functions = signatures_lib.signatures(wide, preprocess, schema, portable=True)
    found = {}
    for name in formats:
        file = _File(runtime=RUNTIMES[name], format=name, directory=directory, scratch=scratch, golden=golden)
        found[name] = file.write(functions, tracked=(wide, preprocess))
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _File:
    runtime: Runtime
    format: str
    directory: pathlib.Path
    scratch: pathlib.Path
    golden: Golden

    @property
    def path(self) -> pathlib.Path:
        return self.directory / self.runtime.file_name

    def write(self, functions: Mapping[str, Function], *, tracked: Sequence[tf.Module]) -> dict:
        """Converts the first suitable of `raw` and `prepared`."""
        text = [name for name, values in self.golden.inputs[RAW].items() if values.dtype.hasobject]
        reason = f"only TensorFlow prepares {', '.join(map(repr, text))}" if text else ""
        for signature in (PREPARED,) if text else (RAW, PREPARED):
            try:
                description = self._write(signature, functions[signature], tracked)
            except UnsuitableError as error:
                reason, refusal = f"with it: {error}", error
            else:
                why = {"without_preprocessing": reason} if signature == PREPARED else {}
                return {"file": self.runtime.file_name, "takes": signature, **why, **description}
        raise InputError(
            f"--format={self.format}",
            received=str(refusal),
            expected=f"a model that {self.runtime.name} computes as TensorFlow does",
            action="Nothing was written. Leave the format out, or build the model without that.",
        ) from None

    def _write(self, signature: str, function: Function, tracked: Sequence[tf.Module]) -> dict:
        inputs = self.golden.inputs[signature]
        convert(function, self.format, self.path, tracked=tracked)
        expected = {name: values.numpy() for name, values in function(inputs).items()}
        answers = self._answers(inputs)
        differences = {
            "largest_difference": _difference(answers, expected),
            "largest_difference_from_saved_model": _difference(answers, self.golden.predictions),
        }
        allowed = (TOLERANCE, max(TOLERANCE, self.golden.tolerance))
        for difference, most in zip(differences.values(), allowed, strict=True):
            if not difference <= most:
                raise UnsuitableError(
                    f"predictions that differ by {difference:.3g} of the largest, above {most:.3g}"
                )
        return {
            "inputs": {name: [str(each.dtype), [None, *each.shape[1:]]] for name, each in inputs.items()},
            "outputs": list(expected),
            "runtime": self.runtime.version,
            "tolerance": TOLERANCE,
            **differences,
        }

    def _answers(self, inputs: _Arrays) -> _Arrays:
        """Returns the answers to all rows; the answer to the first row by itself is appended."""
        given, answered = self.scratch / "inputs.npz", self.scratch / "answers.npz"
        runtimes.save(given, inputs)
        files = map(str, (self.path, given, answered))
        command = [sys.executable, "-m", runtimes.__name__, self.format, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise UnsuitableError(f"a file that {self.runtime.name} does not run ({lines[-1]})")
        return runtimes.load(answered)


def in_float32(model: keras.Model) -> keras.Model:
    """Returns the model or, if it does not compute in float32, one with the same weights that does.

    Raises:
      InputError: Keras cannot build the model again from its config.
    """
    layers = list(model._flatten_layers())  # Keras (3.15) has no public way
    if not any(layer.compute_dtype in _NARROW for layer in layers):
        return model
    try:
        config = json.dumps(keras.saving.serialize_keras_object(model))
        wide = json.loads(_NARROW_POLICY.sub('"float32"', config))
        classes = {type(layer).__name__: type(layer) for layer in layers}
        copy = keras.saving.deserialize_keras_object(wide, custom_objects=classes)
        copy.set_weights(model.get_weights())
    except Exception as error:  # a model's own code may raise anything
        raise InputError(
            "--format",
            received=f"a model that Keras cannot build again from its config: {error}",
            expected="one whose layers have get_config() and from_config(), to compute in float32",
            action="Write these for your own layers, or leave the format out.",
        ) from error
    return copy


def _difference(answers: _Arrays, expected: _Arrays) -> float:
    """Returns the largest difference as a share of the largest number; infinite where a shape differs."""
    worst = 0.0
    for name, rows in expected.items():
        twice = np.concatenate([rows, rows[:1]])  # rows as `_answers` returns them
        if answers[name].shape != twice.shape:
            return np.inf
        largest = float(np.abs(rows).max(initial=0.0)) or 1.0
        worst = max(worst, largest_difference(answers[name], twice) / largest)
    return worst

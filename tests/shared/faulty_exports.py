"""Exports with a planted fault, made with TensorFlow alone of a sound one."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from pipeline.base import documents
from pipeline.base.files import sha256
from pipeline.data.dataset import records
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.records import MODEL_INPUTS
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.exporting.export import Trained

Outputs = dict[str, tf.Tensor]


def signed_again(directory: pathlib.Path) -> pathlib.Path:
    """Makes `export.json` name the files as they are now: the fault is in what was exported."""
    path = directory / "export.json"
    path.unlink()
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    digests = {str(file.relative_to(directory)): sha256(file) for file in files}
    document = {"format": records.FORMAT, "files": digests}
    path.write_text(json.dumps(documents.with_digest(document)))
    return directory


def resaved(
    exported: pathlib.Path,
    output: pathlib.Path,
    *,
    change: Callable[[Outputs], Outputs] = dict,
    names: Mapping[str, str] | None = None,
    weight: np.ndarray | None = None,
) -> pathlib.Path:
    """The export with other predictions, names of signatures, or one weight more that nothing needs."""
    shutil.copytree(exported, output)
    module = tf.Module()
    module.inner = tf.saved_model.load(str(exported))
    module.weight = None if weight is None else tf.Variable(weight)
    signatures = {
        (names or {}).get(name, name): _changed(function, dict if name == MODEL_INPUTS else change)
        for name, function in module.inner.signatures.items()
    }
    for signature in signatures.values():
        signature.needs = module  # what is not reached from the module is not saved
    module.kept = list(signatures.values())
    tf.saved_model.save(module, str(output), signatures=signatures)
    return signed_again(output)


def _changed(function: Callable, change: Callable[[Outputs], Outputs]) -> Callable:
    _, inputs = function.structured_input_signature

    @tf.function(input_signature=[dict(inputs)], autograph=False)
    def changed(given: Mapping[str, tf.Tensor]) -> Outputs:
        return change(function(**given))

    return changed


def slow(outputs: Outputs) -> Outputs:
    """Multiplies matrices for some tens of milliseconds before it answers."""
    start = 0.0 * tf.reduce_sum(next(iter(outputs.values())))
    busy = tf.while_loop(
        lambda step, _: step < 400,
        lambda step, matrix: (step + 1, matrix @ matrix),
        (0, tf.fill([128, 128], start)),
    )[1]
    return {name: values + busy[0, 0] for name, values in outputs.items()}


def with_other_statistics(trained: Trained, **features: Mapping[str, object]) -> Trained:
    """The model, served with a preprocessing that was built from other statistics of a few features."""
    statistics = statistics_lib.read(trained.statistics_path)["train"]
    changed = {
        name: dataclasses.replace(statistics.features[name], **values) for name, values in features.items()
    }
    statistics = dataclasses.replace(statistics, features={**statistics.features, **changed})
    return dataclasses.replace(trained, preprocess=Preprocess(trained.schema, statistics))

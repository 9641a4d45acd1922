"""The same rows through training's input and through the export's signature for raw columns."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.export_manifest import MODEL_INPUTS, RAW
from pipeline.data.schema.label_tasks import LABEL_TASKS
from pipeline.release.export import Trained
from pipeline.release.infra.recording import tolerance
from pipeline.release.parity.asked import asked
from pipeline.release.parity.blame import Blame
from pipeline.release.parity.raw_cells import RawCells
from pipeline.release.parity.result import Skew
from pipeline.release.parity.sample import AsTrained, Sample


def skew(trained: Trained, model: tf.Module, sample: Sample) -> Skew:
    """Of the loaded export `model`. What training makes of a row is computed from the run alone."""
    label = trained.schema.label
    as_trained = AsTrained(trained.preprocess, [trained.model], label, schema=sample.schema)
    blame = Blame(trained.preprocess, trained.schema)
    output, allowed = LABEL_TASKS[label.task].output, tolerance(trained.model)
    differing, worst = 0, 0.0
    raw, from_files = RawCells(sample.dataset), 0
    for some in sample.batches():
        cells = raw.of(some.places)
        from_files += sum(each is not None for each in cells)
        columns = asked(some, cells, trained.schema)
        tensors = {name: tf.constant(values) for name, values in columns.items()}
        inputs, (expected,) = as_trained(some)
        found = model.signatures[RAW](**tensors)[output].numpy()
        errors = np.abs(found.astype(np.float64) - expected).reshape(len(expected), -1).max(axis=1)
        differing += int(np.sum(~(errors <= allowed * np.abs(expected).max())))
        worst = max(worst, float(errors.max(initial=0.0)))
        if MODEL_INPUTS in model.signatures:
            blame.compare(inputs, _arrays(model.signatures[MODEL_INPUTS](**tensors)), columns)
    return Skew(
        rows=len(sample), from_files=from_files, differing=differing, worst=worst, features=blame.features()
    )


def _arrays(tensors: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}

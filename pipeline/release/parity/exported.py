"""The export against the graph in memory, bit for bit."""

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.export_manifest import SERVING_DEFAULT
from pipeline.data.schema.label_tasks import LABEL_TASKS
from pipeline.release import signatures as signatures_lib
from pipeline.release.export import Trained
from pipeline.release.parity.result import Agreement
from pipeline.release.parity.sample import Sample


def agreement(trained: Trained, model: tf.Module, sample: Sample) -> Agreement:
    """Of the loaded export's `serving_default` with a function of the trained model, compiled to a graph.

    Eagerly computed, bfloat16 differs from either by 1e-3: a graph rounds between fewer operations.
    """
    graph = signatures_lib.signatures(trained.model, trained.preprocess, trained.schema)[SERVING_DEFAULT]
    served = model.signatures[SERVING_DEFAULT]
    output = LABEL_TASKS[trained.schema.label.task].output
    differing, worst = 0, 0.0
    for some in sample.batches():
        examples = some.examples()
        found, expected = served(examples=examples)[output].numpy(), graph(examples)[output].numpy()
        differing += rows_of_other_bits(found, expected)
        worst = max(worst, float(np.max(np.abs(found.astype(np.float64) - expected), initial=0.0)))
    return Agreement(rows=len(sample), differing=differing, worst=worst)


def rows_of_other_bits(found: np.ndarray, expected: np.ndarray) -> int:
    """Rows in which one bit or more differs; all, where dtype or shape do."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return len(expected)
    if not len(expected):
        return 0
    one, other = (
        np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1) for each in (found, expected)
    )
    return int(np.sum((one != other).any(axis=1)))

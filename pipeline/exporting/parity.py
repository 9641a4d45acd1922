"""Compares a run's export with its graph in memory."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.records import SERVING_DEFAULT
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.exporting import replay
from pipeline.exporting.export import export_model, trained
from pipeline.exporting.recording import tolerance
from pipeline.report.comparison import Comparison, Difference, comparison, relative_error
from pipeline.training.experiment.restore import RestoredRun
from pipeline.training.state import golden
from pipeline.training.tasks.registry import task_of


def compare(run: RestoredRun) -> Comparison:
    """Exports to a temporary directory, and compares its predictions of the run's golden records.

    Raises:
      InputError: the export differs from itself in a fresh process, or the golden records are damaged.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder) / "export"
        export_model(trained(run), directory)
        signature = tf.saved_model.load(str(directory)).signatures[SERVING_DEFAULT]
        outputs = signature(examples=replay.golden_examples(directory))
    found = outputs[LABEL_TASKS[run.schema.label.task].output].numpy()
    difference = Difference(
        name="predictions of the golden records",
        errors={"predictions": relative_error(found, _predictions(run))},
        # In the export's graph TensorFlow joins operations that are separate in memory, and so rounds less
        # often.
        tolerances={"predictions": tolerance(run.model)},
    )
    return comparison(
        "export",
        "the export, loaded again, against the graph in memory",
        [difference],
        advice="Do not serve this model. Please report it, with the schema.",
    )


def _predictions(run: RestoredRun) -> np.ndarray:
    inputs = golden.inputs(run.workdir.golden, run.schema, run.preprocess)
    label = run.schema.of_rows.label
    part, task = task_of(label).split(run.model)
    return task.answers(label, inputs, part(inputs, training=False)).numpy()

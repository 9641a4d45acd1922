"""What the precision of training decides otherwise than float32 would, with the same weights."""

import keras
import numpy as np

from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.splits import TRAIN
from pipeline.release.parity.result import Flips
from pipeline.release.parity.sample import AsTrained, Sample
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment.model import build_model, learned_scale
from pipeline.training.restore import RestoredRun

FLOAT32 = "float32"


def flips(run: RestoredRun, sample: Sample) -> Flips | None:
    """None where the run itself computes in float32."""
    policy = run.record.precision["policy"]
    if policy == FLOAT32:
        return None
    models = [run.model, float32_twin(run)]
    predict = AsTrained(run.preprocess, models, run.schema.label, schema=sample.schema)
    pairs = zip(*(predict(some)[1] for some in sample.batches()), strict=True)
    rounded, exact = (np.concatenate(each).astype(np.float64) for each in pairs)
    return compared(rounded, exact, policy=policy)


def compared(rounded: np.ndarray, exact: np.ndarray, *, policy: str) -> Flips:
    """Of predictions, probabilities [n, classes] or values [n]. What is not finite has moved without end."""
    has_classes = rounded.ndim > 1
    flipped = int(np.sum(rounded.argmax(axis=1) != exact.argmax(axis=1))) if has_classes else 0
    unit = 1.0 if has_classes else float(np.std(exact)) or 1.0
    with np.errstate(all="ignore"):
        moved = float(np.sqrt(np.mean((rounded - exact) ** 2))) / unit
    return Flips(
        policy=policy,
        rows=len(exact),
        flipped=flipped,
        rate=flipped / len(exact),
        moved=moved if np.isfinite(moved) else np.inf,
    )


def float32_twin(run: RestoredRun) -> keras.Model:
    """A model with the run's weights that computes in float32."""
    statistics = statistics_lib.read(run.workdir.statistics)[TRAIN]
    twin = build_model(
        run.config,
        schema=run.schema,
        inputs=run.preprocess.inputs,
        precision=Precision(policy=FLOAT32, reason="to compare with"),
        scale=learned_scale(run.config, run.schema.label, statistics),
    )
    twin.set_weights(run.model.get_weights())
    return twin

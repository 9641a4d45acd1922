"""Compares two computations of the same numbers."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.preprocessing.preprocess import LabelScale
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.report.section import Section
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import data, objective
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.model import build_model, build_preprocess, learned_scale
from pipeline.training.replay.stream import Batch, TrainingStream
from pipeline.training.tasks.objective import Objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference of one thing, such as a layer's outputs.

    Attributes:
      errors: by what was compared, as `relative_error` gives them.
      tolerances: the most that each may be.
    """

    name: str
    errors: Mapping[str, float]
    tolerances: Mapping[str, float]

    @property
    def excess(self) -> float:
        """The largest error as a multiple of its tolerance; above 1: it differs. NaN counts as infinite."""
        ratios = [self.errors[key] / self.tolerances[key] for key in self.errors]
        return max((ratio if ratio == ratio else np.inf for ratio in ratios), default=0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two ways of computing, compared.

    Attributes:
      name: in two words or so.
      what: the two computations that were compared.
      differences: the worst first.
      skipped: why there was nothing to compare; empty where there was.
      advice: what to do where they differ.
    """

    name: str
    what: str
    differences: Sequence[Difference] = ()
    skipped: str = ""
    advice: str = ""

    @property
    def found(self) -> Sequence[Difference]:
        """The differences that are larger than they may be."""
        return [each for each in self.differences if each.excess > 1]


def comparison(name: str, what: str, differences: Sequence[Difference], *, advice: str) -> Comparison:
    """Returns a comparison with its differences in order."""
    ordered = tuple(sorted(differences, key=lambda each: -each.excess))
    return Comparison(name=name, what=what, differences=ordered, advice=advice)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    """‖found − exact‖ / ‖exact‖, Euclidean, in float64, over all elements.

    0 where both are 0 everywhere; infinite where only `exact` is, or where one is not finite.
    """
    one, other = np.asarray(found, np.float64).ravel(), np.asarray(exact, np.float64).ravel()
    if np.array_equal(one, other) and np.isfinite(one).all():
        return 0.0
    with np.errstate(all="ignore"):
        error = np.linalg.norm(one - other) / np.linalg.norm(other)
    return float(error) if np.isfinite(error) else np.inf


# --- The subject: an experiment with its weights, of a run or before there is one.


FLOAT32 = Precision(policy="float32", reason="to compare with")
BFLOAT16 = Precision(policy="mixed_bfloat16", reason="to compare")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """An experiment.

    Attributes:
      learned: the unit in which the model learns a number.
      objective: what training minimises.
      weights: of the model, in the order of its `weights`; None: those that it begins with.
    """

    experiment: Experiment
    stream: TrainingStream
    learned: LabelScale
    objective: Objective
    weights: Sequence[np.ndarray] | None = None

    @property
    def schema(self) -> Schema:
        return self.stream.schema

    def batches(self, steps: int) -> list[Batch]:
        """The global batches of the first steps; raises InputError where a record is damaged."""
        return list(self.stream.batches(0, steps=steps))

    def model(self, precision: Precision = FLOAT32) -> keras.Model:
        """A new model with these weights; its dropout drops nothing, so that it computes the same twice."""
        if not tf.distribute.has_strategy():  # whose scope it would spoil (TensorFlow 2.21)
            keras.utils.clear_session(free_memory=False)  # layers have the same names in every model
        made = build_model(
            self.experiment.model,
            schema=self.schema,
            inputs=self.stream.preprocess.inputs,
            precision=precision,
            scale=self.learned,
        )
        if self.weights is not None:
            made.set_weights(self.weights)
        for layer in made._flatten_layers():  # no public way reaches layers in layers (Keras 3.15)
            if hasattr(layer, "rate"):
                layer.rate = 0.0
        return made


def of_experiment(experiment: Experiment, dataset: Dataset) -> Subject:
    """Builds what a run would begin with; raises InputError where the experiment does not fit the dataset."""
    args = experiment.data
    selections = data.selections_of(args, dataset)
    statistics = loading.of_training(dataset)
    return Subject(
        experiment=experiment,
        stream=TrainingStream(
            args=args,
            data=data.training_data(args, selections),
            preprocess=build_preprocess(args, dataset.schema, statistics),
        ),
        learned=learned_scale(experiment.loss, dataset.schema.label, statistics),
        objective=objective.build(experiment, dataset.schema, statistics),
    )


# --- Comparisons as sections for a terminal, and as JSON.


_MOST = 5  # values shown of what agrees; all that differs are shown


def section(comparison: Comparison) -> Section:
    """The comparison, what differs and the worst of what agrees."""
    if comparison.skipped:
        return Section(title=f"{comparison.name:<14} not compared: {comparison.skipped}")
    found = comparison.found
    listed = comparison.differences[: max(_MOST, len(found))]
    left = len(comparison.differences) - len(listed)
    return Section(
        title=f"{comparison.name:<14} {'DIFFERS' if found else 'agrees'}: {comparison.what}",
        parts=[
            *(f"{'!' if each.excess > 1 else ' '} {each.name}: {_errors(each)}" for each in listed),
            f"  … and {left} that differ less" if left else None,
            comparison.advice if found else None,
        ],
    )


def format_verdict(comparisons: Sequence[Comparison]) -> str:
    differing = [each.name for each in comparisons if each.found]
    compared = [each.name for each in comparisons if not each.skipped]
    skipped = [each.name for each in comparisons if each.skipped]
    if not differing:
        agreeing = f"all agree ({', '.join(compared)})" if compared else "none"
        left_out = f"; not compared: {', '.join(skipped)}" if skipped else ""
        return f"verdict: {agreeing}{left_out}"
    worst = max((each.found[0] for each in comparisons if each.found), key=lambda each: each.excess)
    return (
        f"verdict: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}; the worst: {worst.name}"
    )


def as_json(comparisons: Sequence[Comparison]) -> dict:
    return {
        "verdict": format_verdict(comparisons),
        "comparisons": [
            {
                "name": each.name,
                "compared": each.what,
                "skipped": each.skipped,
                "differs": bool(each.found),
                "differences": [
                    {"name": one.name, "errors": dict(one.errors), "tolerances": dict(one.tolerances)}
                    for one in each.differences
                ],
            }
            for each in comparisons
        ],
    }


def _errors(difference: Difference) -> str:
    return ", ".join(
        f"{key} {error:.2g} (at most {difference.tolerances[key]:.2g})"
        for key, error in difference.errors.items()
    )

"""Builds the objective of a config, or says why it cannot."""

import math
from collections.abc import Sequence

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import example_weights, losses
from pipeline.training.experiment.config import Data, Experiment
from pipeline.training.experiment.model import learned_scale
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import task_of

BALANCED = "balanced"
_SMOOTHING, _WEIGHTS = "train.label_smoothing", "train.class_weights"


def build(experiment: Experiment, schema: Schema, statistics: SplitStatistics) -> Objective:
    """The objective of a run; `statistics` are those of the train split.

    Raises:
      InputError: the label has no classes to smooth or to weight, or other classes; or the column cannot
        weigh the examples.
    """
    label = schema.label
    by_example = example_weights.column(experiment.data.example_weights, schema)
    smoothing, args = experiment.loss.label_smoothing, experiment.loss.class_weights
    task = task_of(label)
    if smoothing and not (task.can_be_smoothed and label.classes):
        raise _error(_SMOOTHING, smoothing, f"0 for label '{label.name}', whose task is {label.task}")
    if args and not label.classes:
        raise _error(_WEIGHTS, args, f"() for label '{label.name}', which has no classes")
    if args and label.shape:
        expected = f"() for label '{label.name}', of which an example has any number of classes"
        raise _error(_WEIGHTS, args, f"{expected}: --config.train.example_weights weighs examples")
    weights = _balanced(label, statistics) if args == (BALANCED,) else _as_given(args, label)
    scale = learned_scale(experiment.loss, label, statistics)
    own = losses.build(experiment.own_loss, label, scale)
    if own and smoothing:
        raise _error(_SMOOTHING, smoothing, "0 where config.loss names a loss; some take it as an argument")
    return Objective(
        task=task.measured(label, statistics),
        own=own,
        label_smoothing=smoothing,
        class_weights=weights,
        units=scale.spread if isinstance(scale.spread, tuple) and not own else (),
        mean_weight=example_weights.mean(by_example, statistics) if by_example else None,
    )


def announced(experiment: Experiment, objective: Objective, label: Label) -> tuple[str, ...]:
    """Describes the objective in lines; none where it is the task's own."""
    data, own_loss = experiment.data, experiment.own_loss
    smoothing, weights = objective.label_smoothing, objective.class_weights
    pairs = zip(label.classes, weights, strict=False)
    neither = "the task's own" if objective.own else "neither"
    changes = [
        *([f"{own_loss.name} of each example"] if objective.own else []),
        *([f"labels smoothed by {smoothing:g}"] if smoothing else []),
        *(
            ["class weights " + ", ".join(f"{name} {weight:.4g}" for name, weight in pairs)]
            if weights
            else []
        ),
    ]
    return (
        *([f"loss       {'; '.join(changes)}; evaluations have {neither}"] if changes else []),
        *([_by_example(data, objective)] if objective.mean_weight is not None else []),
    )


def _by_example(data: Data, objective: Objective) -> str:
    have = "tell numbers without and with it" if objective.task.has_weighted_metrics else "have it not"
    counts = f"{objective.mean_weight:.6g}, the mean, counts as 1"
    return f"weights    '{data.example_weights}' of each example, where {counts}; evaluations {have}"


def _balanced(label: Label, statistics: SplitStatistics) -> tuple[float, ...]:
    """Weights of classes: the examples of each class have the same total weight, and the mean weight of an
    example in the train split is 1.
    """
    measured = statistics.features[label.name].values if label.name in statistics.features else None
    if measured is None or not measured.complete:
        raise _error(_WEIGHTS, (BALANCED,), f"a number for each class: label '{label.name}' was not counted")
    counts = dict(measured.values)
    absent = [name for name in label.classes if not counts.get(name)]
    if absent:
        expected = f"a number for each class: the train split has no example of {', '.join(absent)}"
        raise _error(_WEIGHTS, (BALANCED,), expected)
    examples = sum(counts[name] for name in label.classes)
    return tuple(examples / (len(label.classes) * counts[name]) for name in label.classes)


def _as_given(args: Sequence, label: Label) -> tuple[float, ...]:
    def is_weight(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf

    if args and not (len(args) == len(label.classes) and all(map(is_weight, args)) and any(args)):
        classes = ", ".join(label.classes[:10]) + (", …" if len(label.classes) > 10 else "")
        numbers = f"{len(label.classes)} numbers from 0 on, not all 0: one for each of {classes}"
        expected = f"('{BALANCED}',), or {numbers}"
        raise _error(_WEIGHTS, args, expected)
    return tuple(map(float, args))


def _error(key: str, received: object, expected: str) -> InputError:
    action = "Correct it in the config file or on the command line."
    return InputError(f"--config.{key}", received=received, expected=expected, action=action)

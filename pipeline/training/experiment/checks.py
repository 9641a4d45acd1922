"""What numbers of a config may be. Others would train in silence, or fail late; they are refused at once."""

import decimal
from collections.abc import Callable, Mapping

from ml_collections import ConfigDict

from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.feature_types import Label
from pipeline.training.state.checkpoints import Kept
from pipeline.training.tasks.registry import WEIGHTED, task_of
from pipeline.training.tasks.task import LOSS

_MOST_STEPS = 2**31 - 1  # counted in int32 by the devices
_MOST_EXAMPLES = 2**31 - 1  # of a batch: they are counted in int32
_SEEDS = 2**32  # NumPy's

# By key: whether a value will do, and in words what does. NaN fails every comparison.
_RULES: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "seed": (lambda value: 0 <= value < _SEEDS, f"a whole number from 0 to {_SEEDS - 1:,}"),
    "global_batch": (lambda value: 1 <= value <= _MOST_EXAMPLES, f"1 to {_MOST_EXAMPLES:,} examples"),
    "train.steps": (lambda value: 0 <= value <= _MOST_STEPS, f"0 (as train.epochs says) to {_MOST_STEPS:,}"),
    "train.weight": (lambda value: 0 < value < float("inf"), "a positive number"),
    "optimizer.learning_rate": (lambda value: 0 <= value < float("inf"), "0 or a positive number"),
    "optimizer.weight_decay": (lambda value: 0 <= value < float("inf"), "0 or a positive number"),
    "optimizer.momentum": (lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    "optimizer.warmup_steps": (lambda value: value >= 0, "0 or more"),
    "evaluation.every_epochs": (lambda value: value >= 1, "1 or more"),
}


def check_ranges(config: ConfigDict) -> None:
    """Raises InputError for the first number that a run cannot have."""
    for key, (will_do, expected) in _RULES.items():
        section, _, name = key.rpartition(".")
        value = (config[section] if section else config).get(name)
        if value is not None and not will_do(value):
            raise _error(key, value, expected)


def check_length(steps: int) -> None:
    """Raises InputError for a run that is longer than its steps can be counted."""
    if steps > _MOST_STEPS:
        raise _error("train.epochs", f"{decimal.Decimal(steps):.3g} steps", f"at most {_MOST_STEPS:,} steps")


def _error(key: str, received: object, expected: str) -> InputError:
    return InputError(
        f"--config.{key}",
        received=received,
        expected=expected,
        action="Correct it in the config file or on the command line.",
    )


# --- The numbers that an experiment logs at the end of an epoch: what a callback can monitor.


def logged_names(config: ConfigDict, label: Label, *, is_validated: bool) -> tuple[str, ...]:
    """Names in the logs of `on_epoch_end`; those of the validation begin with `val_`.

    Where examples have weights, the numbers of a validation are there twice.
    """
    task = task_of(label)
    training = (LOSS.key, *(("accuracy",) if task.has_accuracy else ()))
    validated = task.logged(label) if is_validated else ()
    is_weighted = config.train.example_weights and task.has_weighted_metrics
    weighted = validated if is_weighted else ()
    return (
        *training,
        *(f"val_{name}" for name in validated),
        *(f"val_{WEIGHTED}{name}" for name in weighted),
    )


def why_not_validated(split: str, *, epochs: int, every_epochs: int) -> str:
    """Why the logs never hold numbers of a validation; empty where they do."""
    if not split:
        return "but there is no validation split"
    if epochs < every_epochs:
        return f"but a validation is due every {every_epochs} epochs, and the run has {epochs}"
    return ""


# --- Which checkpoints an experiment keeps, and by which number one is the best.


_VALIDATION = "val_"


def kept_best(config: ConfigDict, label: Label) -> Kept:
    """What a run keeps, as its config has it."""
    metric = config.train.keep_best
    return Kept(
        number=config.train.checkpoints_kept,
        metric=metric,
        is_higher_better=metric.removeprefix(_VALIDATION).removeprefix(WEIGHTED) in _higher_is_better(label),
    )


def check_keep_best(config: ConfigDict, label: Label, *, lacking: str = "") -> None:
    """Refuses what no checkpoint could be chosen by.

    Args:
      lacking: why there are no numbers of a validation, where there are none.

    Raises:
      InputError: less than one checkpoint is to be kept, or `keep_best` names no number that is logged.
    """
    if config.train.checkpoints_kept < 1:
        raise InputError(
            "--config.train.checkpoints_kept",
            received=config.train.checkpoints_kept,
            expected="1 or more",
            action="Correct it: a run goes on from the newest one.",
        )
    metric, logged = config.train.keep_best, logged_names(config, label, is_validated=not lacking)
    if metric and metric not in logged:
        is_of_validation = lacking and metric.startswith(_VALIDATION)
        raise InputError(
            "--config.train.keep_best",
            received=f"'{metric}', {lacking}" if is_of_validation else repr(metric),
            expected=f"a number that is logged at the end of an epoch: {', '.join(logged)}",
            action=did_you_mean(metric, logged, otherwise="Choose one of these, or leave it out."),
        )


def _higher_is_better(label: Label) -> set[str]:
    task = task_of(label)
    better = {metric.key for metric in (*task.metrics, LOSS) if metric.is_higher_better}
    return better | ({"accuracy"} if task.has_accuracy else set())

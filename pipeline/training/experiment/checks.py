"""The numbers that an experiment logs at the end of an epoch: what a callback can monitor."""

from collections.abc import Sequence

from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.feature_types import Label
from pipeline.training.experiment.config import Train
from pipeline.training.state.checkpoints import Kept
from pipeline.training.tasks.registry import WEIGHTED, task_of
from pipeline.training.tasks.task import LOSS


def logged_names(label: Label, *, is_validated: bool, is_weighted: bool) -> tuple[str, ...]:
    """Names in the logs of `on_epoch_end`; those of the validation begin with `val_`.

    Args:
      is_weighted: whether examples have weights: then the numbers of a validation are there twice.
    """
    task = task_of(label)
    training = (LOSS.key, *(("accuracy",) if task.has_accuracy else ()))
    validated = task.logged(label) if is_validated else ()
    weighted = validated if is_weighted and task.has_weighted_metrics else ()
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


# --- Checkpoints that an experiment keeps, and the number by which one is the best.


_VALIDATION = "val_"


def kept_best(train: Train, label: Label) -> Kept:
    metric = train.keep_best
    return Kept(
        number=train.checkpoints_kept,
        metric=metric,
        is_higher_better=metric.removeprefix(_VALIDATION).removeprefix(WEIGHTED) in _higher_is_better(label),
    )


def check_keep_best(metric: str, logged: Sequence[str], *, lacking: str = "") -> None:
    """Raises InputError where the best checkpoint cannot be chosen by this metric, since it is not logged.

    Args:
      metric: empty: no best one is kept.
      lacking: why there are no numbers of a validation, where there are none.
    """
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

"""The numbers that an experiment logs at the end of an epoch: what a callback can monitor."""

from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Label
from pipeline.training.experiment import code, metrics
from pipeline.training.experiment.config import Experiment
from pipeline.training.loop.callback_checks import NoValidation, not_logged
from pipeline.training.state.checkpoints import Kept
from pipeline.training.tasks.registry import WEIGHTED, task_of
from pipeline.training.tasks.task import LOSS


def logged_names(
    label: Label, *, is_validated: bool, is_weighted: bool, more: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names in the logs of `on_epoch_end`; names of validation metrics begin with `val_`.

    Args:
      more: metrics that the config names.
      is_weighted: whether examples have weights; then each number of a validation is there twice.
    """
    task = task_of(label)
    training = (LOSS.key, *(("accuracy",) if task.has_accuracy else ()))
    validated = (*task.logged(label), *metrics.keys(more)) if is_validated else ()
    weighted = validated if is_weighted and task.has_weighted_metrics else ()
    return (
        *training,
        *(f"val_{name}" for name in validated),
        *(f"val_{WEIGHTED}{name}" for name in weighted),
    )


def why_not_validated(split: str, *, epochs: int, every_epochs: int) -> NoValidation | None:
    """The reason why the logs never hold numbers of a validation; None where they do."""
    if not split:
        return NoValidation(
            reason="but there is no validation split",
            setting="--config.evaluation.split=validation (or a part: train[90%:])",
        )
    if epochs < every_epochs:
        return NoValidation(
            reason=f"but a validation is due every {every_epochs} epochs, and the run has {epochs}",
            setting=f"--config.evaluation.every_epochs={epochs}",
        )
    return None


# --- Checkpoints that an experiment keeps, and the metric by which one is the best.


_VALIDATION = "val_"
_MAX, _MIN = "max", "min"


def kept_best(experiment: Experiment, label: Label) -> Kept:
    direction, metric = _direction(experiment.train.keep_best)
    key = metric.removeprefix(_VALIDATION).removeprefix(WEIGHTED)
    return Kept(
        number=experiment.train.checkpoints_kept,
        metric=metric,
        is_higher_better=direction == _MAX if direction else key in _higher_is_better(label, experiment),
    )


def callbacks_of(experiment: Experiment, label: Label) -> tuple[Mapping, ...]:
    """The callbacks that a config names, and the Keras one that `train.patience` stands for."""
    patience = experiment.train.patience
    if not patience:
        return experiment.callbacks
    kept = kept_best(experiment, label)
    mode = _MAX if kept.is_higher_better else _MIN
    stopping = {"monitor": kept.metric, "mode": mode, "patience": patience}
    return (*experiment.callbacks, {"class_name": "EarlyStopping", "config": stopping})


def _direction(text: str) -> tuple[str, str]:
    """('max', 'min' or '', the metric)."""
    direction, colon, metric = text.partition(":")
    return (direction, metric) if colon and direction in (_MAX, _MIN) else ("", text)


def check_keep_best(
    text: str, logged: Sequence[str], *, lacking: NoValidation | None = None, more: Sequence[str] = ()
) -> None:
    """Raises InputError where the best checkpoint cannot be chosen by this metric.

    The metric is not logged; or it is code that a config names, and it is not said whether more is better.

    Args:
      text: the metric; empty: no best checkpoint is kept.
      more: metrics that the config names.
      lacking: why there are no numbers of a validation, where there are none.
    """
    direction, metric = _direction(text)
    key = metric.removeprefix(_VALIDATION).removeprefix(WEIGHTED)
    if not direction and key in metrics.keys([each for each in more if code.is_named(each)]):
        raise InputError(
            "--config.train.keep_best",
            received=f"{metric!r}: it is not known whether more is better",
            expected=f"'{_MAX}:{metric}' or '{_MIN}:{metric}'",
            action="Choose one of these.",
        )
    if metric and metric not in logged:
        otherwise = "Choose one of these, or leave it out."
        raise not_logged("--config.train.keep_best", metric, logged, lacking, otherwise=otherwise)


def _higher_is_better(label: Label, experiment: Experiment) -> set[str]:
    task = task_of(label)
    known = (*task.metrics_of(label), LOSS, *metrics.shown(experiment.evaluation.metrics))
    better = {metric.key for metric in known if metric.is_higher_better}
    return better | ({"accuracy"} if task.has_accuracy else set())

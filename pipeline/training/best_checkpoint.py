"""Which checkpoints an experiment keeps, and by which number one is the best."""

from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.data.schema.kinds import Label
from pipeline.training.experiment import monitored
from pipeline.training.state.checkpoints.kept import Kept
from pipeline.training.tasks.metrics import WEIGHTED
from pipeline.training.tasks.registry import task_of
from pipeline.training.tasks.task import LOSS

_VALIDATION = "val_"


def kept(config: ConfigDict, label: Label) -> Kept:
    """What a run keeps, as its config has it; a config of an earlier version knows of no best one."""
    metric = config.train.get("keep_best", "")
    return Kept(
        number=config.train.checkpoints_kept,
        metric=metric,
        is_higher_better=metric.removeprefix(_VALIDATION).removeprefix(WEIGHTED) in _higher_is_better(label),
    )


def check(config: ConfigDict, label: Label, *, lacking: str = "") -> None:
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
    metric, logged = config.train.keep_best, monitored.logged(config, label, is_validated=not lacking)
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

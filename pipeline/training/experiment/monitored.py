"""The numbers that an experiment logs at the end of an epoch: what a callback can monitor."""

from ml_collections import ConfigDict

from pipeline.data.schema.kinds import Label
from pipeline.training.tasks.metrics import WEIGHTED
from pipeline.training.tasks.registry import task_of
from pipeline.training.tasks.task import LOSS


def logged(config: ConfigDict, label: Label, *, is_validated: bool) -> tuple[str, ...]:
    """Names in the logs of `on_epoch_end`; those of the validation begin with `val_`.

    Where examples have weights, the numbers of a validation are there twice.
    """
    task = task_of(label)
    training = (LOSS.key, *(("accuracy",) if task.has_accuracy else ()))
    validated = task.logged(label) if is_validated else ()
    is_weighted = config.train.get("example_weights") and task.has_weighted_metrics
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

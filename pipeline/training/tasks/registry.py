"""The tasks that a label can name."""

from collections.abc import Mapping

from pipeline.data.errors import InputError
from pipeline.data.schema.kinds import Label
from pipeline.training.tasks.classification import Binary, Multiclass
from pipeline.training.tasks.regression import Regression
from pipeline.training.tasks.task import Task

TASKS: Mapping[str, Task] = {"binary": Binary(), "multiclass": Multiclass(), "regression": Regression()}


def task_of(label: Label) -> Task:
    """The task that the label names; raises InputError where TASKS does not have it."""
    if label.task not in TASKS:
        raise InputError(
            f"schema feature '{label.name}', field 'task'",
            received=repr(label.task),
            expected=f"a task that can be trained: {', '.join(TASKS)}",
            action="Add its object to TASKS in pipeline/training/tasks/registry.py, or change the label.",
        )
    return TASKS[label.task]

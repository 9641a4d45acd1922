"""Which metrics the report shows of a run, by its task, and how their values are written."""

from collections.abc import Callable

from pipeline.training.report.drawing import formats
from pipeline.training.report.sections.inputs import ReportInputs
from pipeline.training.tasks.registry import TASKS
from pipeline.training.tasks.task import Metric


def metrics_of(inputs: ReportInputs) -> tuple[Metric, ...]:
    """Those of the run's task, the most telling first; those of all tasks where the task is not known."""
    task = inputs.evaluation.get("task")
    if task is None and inputs.schema is not None:
        task = next((feature.task for feature in inputs.schema.features if feature.kind == "label"), None)
    if task in TASKS:
        return TASKS[task].metrics
    return tuple(dict.fromkeys(metric for known in TASKS.values() for metric in known.metrics))


def written(metric: Metric) -> Callable[[float], str]:
    """The function that writes its values."""
    return formats.fraction if metric.is_fraction else formats.number

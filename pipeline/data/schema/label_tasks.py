"""What each task asks of a label: how its values are stored, and how many classes it declares.

What a task asks of a model stands in pipeline/training/tasks, which needs TensorFlow. Standard library only:
Beam workers import this file.
"""

import dataclasses
from collections.abc import Mapping

from pipeline.data.schema.feature import Dtype


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelTask:
    """The rules for a label of one task.

    `dtype`: int64 class indices, or float32 values. `classes`: the numbers of classes that are allowed.
    `expected` names them in errors. `output` is the name of predictions in an
    export. With `has_positive_class`, the second class is the positive one.
    """

    dtype: Dtype
    classes: range
    expected: str
    output: str
    has_positive_class: bool = False


_MOST_CLASSES = 1 << 31  # class indices leave the host as int32

LABEL_TASKS: Mapping[str, LabelTask] = {
    "binary": LabelTask(
        dtype="int64",
        classes=range(2, 3),
        expected="two names, the positive class second",
        output="probabilities",
        has_positive_class=True,
    ),
    "multiclass": LabelTask(
        dtype="int64",
        classes=range(2, _MOST_CLASSES),
        expected="two names or more",
        output="probabilities",
    ),
    "regression": LabelTask(
        dtype="float32", classes=range(1), expected="none for regression", output="value"
    ),
}

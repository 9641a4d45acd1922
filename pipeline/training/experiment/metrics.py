"""The metrics that `config.evaluation.metrics` names, besides those of the task.

    f1   precision@0.3   top@3                         ours, by a name of METRICS
    keras.metrics:FBetaScore(beta=2.0, threshold=0.5)  any class of Keras, or a subclass of its Metric
    my_metrics:profit(cost=3.0)                        a function of all labels, predictions and weights

A name in the logs is that of ours, or the last part in snake case, such as `f_beta_score`, or `name=`.
"""

import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError, unknown_name
from pipeline.base.own_code import line_of, named, one_line
from pipeline.data.schema.feature_types import Label, TokenLabel
from pipeline.training.experiment import code
from pipeline.training.experiment.config import ANYWHERE, Place
from pipeline.training.tasks.metrics import METRICS, THRESHOLD, Accumulator, Known, Whole
from pipeline.training.tasks.registry import task_of
from pipeline.training.tasks.task import LOSS, Metric

_FLAG = "--config.evaluation.metrics"
_TRIAL = 4  # examples on which each metric is tried before training


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Name:
    """One text of the config, parsed.

    Attributes:
      flag: the flag that gives it.
      key: its name in the logs of an evaluation.
      of: a name in METRICS, or a name of code.
      at: the number after `@`; None: there is none.
      arguments: arguments of the code.
    """

    flag: str
    text: str
    key: str
    of: str
    at: float | None
    arguments: Mapping[str, object]


def keys(texts: Sequence[str]) -> tuple[str, ...]:
    """The names of the metrics in the logs of an evaluation; imports nothing."""
    return tuple(_name(text).key for text in texts)


def shown(texts: Sequence[str]) -> tuple[Metric, ...]:
    """The names of the metrics in the report; imports nothing."""
    names = map(_name, texts)
    return tuple(
        METRICS[each.of].shown(each.key)
        if each.of in METRICS
        else Metric(key=each.key, name=each.key.replace("_", " "))
        for each in names
    )


def build(
    texts: Sequence[str], label: Label, *, flag: str = _FLAG, place: Place = ANYWHERE
) -> Mapping[str, Callable[[], Accumulator]]:
    """Functions that make a new accumulator, by the metrics' names in the logs.

    Args:
      flag: the flag that gives the texts, for errors.

    Raises:
      InputError: there is no such metric, or none for this label; two have the same name; or one gives no
        number.
    """
    makes: dict[str, Callable[[], Accumulator]] = {}
    for each in (_name(text, flag) for text in texts):
        # An evaluation of these tasks keeps two numbers a token, a rank or scores, not all probabilities.
        if isinstance(label, TokenLabel) or label.is_retrieval or label.is_ranking:
            own = ", ".join(metric.name for metric in task_of(label).metrics_of(label))
            raise _error(
                each, "a metric of examples", f"none for {label.task}, which has {own}", "Leave it out."
            )
        if each.key in {*makes, *_taken(label)}:
            form = each.text.rstrip(")") + (", " if "(" in each.text else "(")
            action = f"Write {form}name='another')." if code.is_named(each.of) else "Leave it out."
            raise _error(each, f"a second metric of the name {each.key}", "names that differ", action)
        makes[each.key] = _maker(each, label, place)
        _try(each, makes[each.key](), label)
    return makes


def _name(text: str, flag: str = _FLAG) -> _Name:
    name, arguments = code.call(text, key=flag)
    if code.is_named(name):
        own = str(arguments.pop("name", "")) or _snake(name.rpartition(":")[2].rpartition(".")[2])
        return _Name(flag=flag, text=text, key=own, of=name, at=None, arguments=arguments)
    base, _, at = name.partition("@")
    if base in METRICS and arguments:
        number = f"Write {base}@N, {METRICS[base].at}" if METRICS[base].at else "Write the name"
        raise code.no_arguments(
            text, key=flag, action=f"{number}, or name code as module:function, which may take arguments."
        )
    if base not in METRICS:
        otherwise = "Choose one of these, or name code as module:function."
        raise unknown_name(flag, text, tuple(METRICS), otherwise=otherwise)
    number = _number(at)
    if at and (number is None or not METRICS[base].at):
        expected = f"{base}@N, {METRICS[base].at}" if METRICS[base].at else f"{base} without a number"
        raise InputError(flag, received=repr(text), expected=expected, action="Correct it.")
    return _Name(flag=flag, text=text, key=name, of=base, at=number, arguments={})


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# What an evaluation says besides numbers: a metric of that name would take its place.
_ENTRIES = (
    "split",
    "task",
    "examples",
    "classes",
    "roc",
    "confusion_matrix",
    "predicted_vs_actual",
    "per_class",
    "per_target",
)


def _taken(label: Label) -> set[str]:
    """The names in a task's own evaluation."""
    return {LOSS.key, *(metric.key for metric in task_of(label).metrics_of(label)), *_ENTRIES}


def _maker(name: _Name, label: Label, place: Place) -> Callable[[], Accumulator]:
    if name.of in METRICS:
        return _known(name, label)
    found = code.resolve(name.of, key=name.flag, place=place)
    if isinstance(found, type) and issubclass(found, keras.metrics.Metric):
        return lambda: _OfKeras(_keras_metric(found, name), label)
    return lambda: Whole(_function(found, name, label))


def _known(name: _Name, label: Label) -> Callable[[], Accumulator]:
    known = METRICS[name.of]
    if label.task not in known.tasks:
        named = ", ".join(_of_task(label.task)) or "one of keras.metrics, or your own"
        expected = f"a metric for {label.task}: {named}"
        raise _error(name, f"one for {' and '.join(known.tasks)}", expected, "Choose one of these.")
    if not _fits(name.at, known, label):
        raise _error(name, repr(name.text), f"{name.of}@N, {known.at}", "Correct it.")
    return lambda: known.make(label, name.at)


def _fits(at: float | None, known: Known, label: Label) -> bool:
    if at is None:
        return not known.needs_at
    if known.at == THRESHOLD:
        return label.task in ("binary", "multilabel") and 0.0 <= at <= 1.0
    return 1 <= at < 2**31 and at == int(at)


def _of_task(task: str) -> list[str]:
    return [name for name, known in METRICS.items() if task in known.tasks]


def _error(name: _Name, received: str, expected: str, action: str) -> InputError:
    return InputError(f"{name.flag}, {name.text}", received=received, expected=expected, action=action)


def _try(name: _Name, made: Accumulator, label: Label) -> None:
    """Raises InputError where a metric gives no number: better now than after an epoch."""
    size = max(_TRIAL, len(label.classes))
    labels, predictions = _examples(label, size)
    with _naming(name, made, label, size):
        made.update(labels, predictions, np.ones(size))
        found = made.result()
    if found is None:
        said = f"no finite number on {size} examples"
        raise _error(name, said, f"a metric for {label.task}", "Correct its code or its arguments.")


@contextlib.contextmanager
def _naming(name: _Name, made: object, label: Label, size: int) -> Iterator[None]:
    """Raises an InputError with the line of own code that fails in the block, or would end the process."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__} on {size:,} examples: {one_line(error)}"
        where = line_of(made, error) or f"{named(made)} or its arguments"
        raise _error(name, said, f"a metric for {label.task}", f"Correct {where}.") from None


def _examples(label: Label, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions as an evaluation has them."""
    classes = len(label.classes)
    if not classes:
        values = np.arange(size, dtype=np.float32), np.linspace(0.5, size, size)
        return tuple(np.stack([each] * label.shape[0], axis=1) for each in values) if label.shape else values
    # All different, so that a correlation is a number.
    scores = 1.0 + (np.arange(size)[:, None] + np.arange(classes)) % classes
    if label.shape:
        return np.eye(size, classes, dtype=np.int32), scores / (1.0 + classes)
    labels = (np.arange(size) % classes).astype(np.int32)
    if label.task == "binary":
        return labels, np.stack([np.linspace(0.9, 0.1, size), np.linspace(0.1, 0.9, size)], axis=1)
    return labels, scores / scores.sum(axis=1, keepdims=True)


def _function(found: Callable, name: _Name, label: Label) -> Callable[..., float | None]:
    def value(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> float | None:
        with _naming(name, found, label, len(labels)):
            return _one_number(found(labels, predictions, weights, **name.arguments), name)

    return value


def _one_number(value: object, name: _Name) -> float | None:
    """The number; None where it is not finite: JSON has no such number."""
    whole = np.asarray(value, dtype=np.float64) if value is not None else np.asarray(np.nan)
    if whole.size != 1:
        action = "Have it return one: Keras's metrics of classes do so with average='macro'."
        raise _error(name, f"{whole.size} numbers", "a metric that gives one number", action)
    number = float(whole.reshape(()))
    return number if np.isfinite(number) else None


# --- Classes of Keras.


def _keras_metric(made: type[keras.metrics.Metric], name: _Name) -> "_KerasMetric":
    # In float64 a long sum keeps growing; but TensorFlow (2.21) finds the k largest only in float32.
    parameters = inspect.signature(made).parameters.values()
    takes_dtype = any(each.name == "dtype" or each.kind is each.VAR_KEYWORD for each in parameters)
    dtype = {"dtype": "float64"} if takes_dtype and "TopK" not in code.names_of(made) else {}
    with tf.device("CPU:0"):
        return _KerasMetric(
            metric=code.build(made, {**dtype, **name.arguments}, name=name.of, key=name.flag), name=name
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _KerasMetric:
    metric: keras.metrics.Metric
    name: _Name

    @property
    def takes_classes(self) -> bool:
        """Whether labels are class indices."""
        return "Sparse" in self._names

    @property
    def takes_one_hot(self) -> bool:
        """Whether it compares classes even if there are only two."""
        is_argmax = isinstance(self.metric, keras.metrics.FBetaScore) and self.metric.threshold is None
        return is_argmax or any(each in self._names for each in ("Categorical", "OneHot"))

    @property
    def takes_answers(self) -> bool:
        """Whether it compares class indices with the predicted class; it would cut off the fractions of
        probabilities.
        """
        of_classes = isinstance(self.metric, keras.metrics.IoU | keras.metrics.MeanIoU)
        return of_classes and "OneHot" not in self._names

    @property
    def takes_several(self) -> bool:
        """Whether it compares the numbers of an example with each other."""
        return any(each in self._names for each in ("Correlation", "CosineSimilarity"))

    @property
    def _names(self) -> str:
        return code.names_of(type(self.metric))


class _OfKeras(Accumulator):
    """Gives a metric of Keras its inputs in the right form; it rounds as Keras does, to some 1e-7.

    With many classes, `Sparse…` get class indices and the probabilities of all classes; others get one-hot
    labels and the same probabilities. With two classes, they get whether it is the second one, and its
    probability, [n, 1]. In a regression they get values, [n, 1]. Where an example has several classes or
    numbers, they get all of these, [n, …], and the predictions of each.
    """

    def __init__(self, of: _KerasMetric, label: Label) -> None:
        self._of, self._label = of, label

    def update(self, labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> None:
        with tf.device("CPU:0"), _naming(self._of.name, self._of.metric, self._label, len(labels)):
            labels, predictions = self._pair(labels, predictions)
            predictions = predictions.astype(self._of.metric.dtype)
            self._of.metric.update_state(labels, predictions, sample_weight=weights)

    def _pair(self, labels: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self._label.shape:
            self._require_of_each()
            return labels.astype(np.float64), predictions
        if self._of.takes_several and self._label.task in ("binary", "regression"):
            action = "Choose another, or a function of your own: it gets all examples at once."
            raise _error(
                self._of.name, "a metric of several numbers an example", "one of a single number", action
            )
        if not self._label.classes:
            return labels.astype(np.float64)[:, None], predictions[:, None]
        if self._of.takes_answers and not isinstance(self._of.metric, keras.metrics.BinaryIoU):
            return labels, predictions.argmax(axis=1)
        if self._of.takes_classes:
            return labels[:, None], predictions
        if self._label.task == "binary" and not self._of.takes_one_hot:
            return labels.astype(np.float64)[:, None], predictions[:, 1:]
        return np.eye(predictions.shape[1])[labels], predictions

    def _require_of_each(self) -> None:
        """Raises InputError for a metric of one class an example, where it may have several."""
        if self._label.classes and (
            self._of.takes_classes or self._of.takes_one_hot or self._of.takes_answers
        ):
            action = "Choose one that takes each class by itself, such as F1Score(threshold=0.5)."
            raise _error(self._of.name, "a metric of one class an example", "one for multilabel", action)

    def result(self) -> float | None:
        with tf.device("CPU:0"):
            return _one_number(self._of.metric.result(), self._of.name)

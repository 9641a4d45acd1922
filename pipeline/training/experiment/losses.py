"""The loss that `config.loss.name` names, in place of the task's: a loss for each example, before any mean.

    Huber   BinaryFocalCrossentropy   keras.losses:Huber(delta=2.0)   classes and functions of Keras
    my_losses:asymmetric                                              a function of (labels, logits)

The sum is ours: the examples' losses, weighted where a config says so, divided by the global batch. So
replicas and micro-batches change nothing, whatever reduction the loss itself has.
"""

import inspect
import re
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.own_code import named, naming_line
from pipeline.data.preprocessing.preprocess import LabelScale
from pipeline.data.schema.feature_types import Label, TokenLabel
from pipeline.training.experiment import code
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.code import Code
from pipeline.training.tasks.objective import LossOfExamples
from pipeline.training.tasks.registry import task_of

_KEY = "--config.loss.name"
_LIBRARY = "keras.losses"
_TRIED = 3  # examples on which each loss is tried


def _refuse_arguments(options: Mapping[str, object]) -> None:
    """Raises InputError for arguments if no loss is named: they would change nothing."""
    for key, value in options.items():
        raise InputError(
            f"--config.loss.{key}",
            received=value,
            expected=f"no argument of a loss while {_KEY} is empty",
            action=f"Name the loss with {_KEY}. Settings of training begin with --config.train.",
        )


def build(args: config_lib.OwnLoss, label: Label, scale: LabelScale) -> LossOfExamples | None:
    """(labels [batch], logits float32 [batch, logits]) → losses, float32 [batch]; None: the task's own.

    A class of Keras gets labels in the form that it expects. `Sparse…` gets class indices. Others get one-hot
    labels; with two classes 1 for the second class and 0 for the first, [batch, 1]. It gets logits if it has
    `from_logits` or is a hinge, else probabilities. A user's own function gets class indices, int32, or
    values, and logits.

    Args:
      scale: the scale by which a regression learns its labels; its loss gets labels and logits in that unit.

    Raises:
      InputError: there is no such loss, it refuses its arguments, or does not give a number for each example.
    """
    if not args.name:
        _refuse_arguments(args.options)
        return None
    name, inline = code.call(args.name, key=_KEY)
    if isinstance(label, TokenLabel):
        raise InputError(
            f"{_KEY}={name}",
            received=f"a loss of each example, for {label.task}",
            expected="none: the loss is the mean over the predicted tokens of all rows together",
            action="Leave it out: the task's own is the cross-entropy of the next token.",
        )
    if label.is_retrieval:
        raise InputError(
            f"{_KEY}={name}",
            received=f"a loss of all scores, for {label.task}",
            expected="none: the loss may be over the items of a batch",
            action="Leave it out: the task's own is the cross-entropy of the chosen item.",
        )
    found = code.resolve(name, key=_KEY, library=_LIBRARY, place=args.place)
    if label.is_ranking and (getattr(found, "__module__", None) or "").startswith("keras."):
        raise InputError(
            f"{_KEY}={name}",
            received=f"a loss of single numbers, for {label.task}",
            expected="a function of labels int32 [batch, length], below 0 where a group is filled up, and of "
            "scores float32 [batch, length], to losses of groups, float32 [batch]",
            action="Leave it out, or name pipeline.training.tasks.ranking:lambda_loss or code of your own.",
        )
    arguments = {**args.options, **inline}
    _require_values_as_they_are(found, name, label, scale)
    of_examples = _of(found, name, arguments, label)

    def losses(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        if not label.classes and not label.is_ranking:
            labels = (tf.cast(labels, tf.float32) - scale.mean) / scale.spread
            logits = (logits - scale.mean) / scale.spread
        return _float32(of_examples(labels, logits), name, labels)

    _try(losses, found, name, label)
    return losses


def code_of(args: config_lib.OwnLoss) -> Code | None:
    """The code of a loss that is named with its module; None for the task's own loss, or a plain name of
    Keras.
    """
    name, _ = code.call(args.name, key=_KEY)
    return code.find(name, key=_KEY, place=args.place) if code.is_named(name) else None


def _of(found: Callable, name: str, arguments: Mapping[str, object], label: Label) -> LossOfExamples:
    if isinstance(found, type) and issubclass(found, keras.losses.Loss):
        made = code.build(found, _with_logits(found) | arguments, name=name, key=_KEY)
        takes_logits = _takes_logits(found, arguments)
        return _fed(made.call, label, names=code.names_of(found), takes_logits=takes_logits)
    code.require_arguments(found, arguments, name=name, key=_KEY)
    if not found.__module__.startswith("keras."):
        return lambda labels, logits: found(labels, logits, **arguments)
    whole = _with_logits(found) | arguments
    return _fed(
        lambda true, predicted: found(true, predicted, **whole),
        label,
        names=code.names_of(found),
        takes_logits=_takes_logits(found, arguments),
    )


def _with_logits(found: Callable) -> dict[str, object]:
    return {"from_logits": True} if "from_logits" in inspect.signature(found).parameters else {}


def _takes_logits(found: Callable, arguments: Mapping[str, object]) -> bool:
    given = _with_logits(found) | arguments
    return bool(given.get("from_logits", False)) or "hinge" in code.names_of(found).lower()


# Losses that take a ratio or a logarithm of values. They mean nothing for standardised values, half of which
# are negative: Keras clips negative numbers in silence.
_OF_POSITIVE_VALUES = re.compile(r"percentage|mape|logarithmic|msle|poisson", re.IGNORECASE)


def _require_values_as_they_are(found: Callable, name: str, label: Label, scale: LabelScale) -> None:
    """Raises InputError where a loss of Keras for positive values would get standardised ones."""
    is_keras = (getattr(found, "__module__", None) or "").startswith("keras.")
    if label.classes or not is_keras or not _OF_POSITIVE_VALUES.search(found.__name__):
        return
    if (scale.mean, scale.spread) != (0.0, 1.0):
        raise InputError(
            f"{_KEY}={name}",
            received="labels of mean 0 and deviation 1, half of them negative (train.standardise_labels)",
            expected="labels in their own unit: this loss takes a ratio or a logarithm of them",
            action="Set --config.train.standardise_labels=false; it needs positive predictions, too.",
        )


# Losses over all classes: with one column, they would be 0 whatever the model says.
_OVER_CLASSES = re.compile(r"categorical(?!.*hinge)|kl_?div|cosine", re.IGNORECASE)
# Losses that take class indices. Of the generalized one its name does not say so.
_OF_INDICES = re.compile(r"sparse|categorical_?generalized", re.IGNORECASE)
_OF_DIRECTIONS = re.compile(r"cosine", re.IGNORECASE)


def _fed(
    losses: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], label: Label, *, names: str, takes_logits: bool
) -> LossOfExamples:
    """Gives a loss what it takes, which its `names` say: those of `code.names_of`."""
    task, name = task_of(label), names.partition(" ")[0]
    sparse, over_classes = bool(_OF_INDICES.search(names)), bool(_OVER_CLASSES.search(names))
    if not label.classes and not label.shape and _OF_DIRECTIONS.search(names):
        raise InputError(
            f"{_KEY}={name}",
            received="a loss of directions",
            expected="a loss of single numbers: one number has no direction but its sign",
            action="Choose another, such as Huber, or leave it out: the task's own is the squared error.",
        )
    if label.shape and label.classes and (sparse or over_classes):
        raise InputError(
            f"{_KEY}={name}",
            received="a loss for examples that have exactly one class",
            expected="a loss of each class by itself for a multilabel, such as BinaryFocalCrossentropy",
            action="Choose such a loss, or leave it out: the task's own is binary cross-entropy.",
        )

    def fed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        if not label.classes:
            return losses(labels if label.shape else labels[:, None], logits)
        if label.shape:
            return losses(tf.cast(labels, tf.float32), logits if takes_logits else task.predictions(logits))
        if takes_logits and over_classes and label.task == "binary":
            # The softmax of these equals the sigmoid.
            predicted = tf.concat([tf.zeros_like(logits), logits], axis=1)
        else:
            predicted = logits if takes_logits else task.predictions(logits)
        if sparse:
            return losses(labels, predicted)
        if label.task == "binary" and not over_classes:
            return losses(tf.cast(labels, tf.float32)[:, None], predicted[:, -1:])
        return losses(tf.one_hot(labels, len(label.classes)), predicted)

    return fed


def _float32(found: object, name: str, labels: tf.Tensor) -> tf.Tensor:
    """What a loss returns, as float32 [batch]; raises InputError where it is something else."""
    if found is None:
        raise _no_losses(name, "None", "Return the losses, at the end of its code.")
    found = tf.convert_to_tensor(found)
    if not (found.dtype.is_floating or found.dtype.is_integer or found.dtype.is_bool):
        raise _no_losses(name, f"a tensor of {found.dtype.name}", "Return real numbers.")
    if not found.shape.is_compatible_with(labels.shape[:1]):
        is_scalar = not found.shape.rank
        raise _no_losses(
            name,
            "one number for the whole batch" if is_scalar else f"a tensor of shape {found.shape}",
            "Return losses before their mean, such as tf.reduce_mean(errors, axis=-1): Penstock adds "
            "them up over the global batch.",
            size=labels.shape[0],
        )
    return tf.cast(found, tf.float32)


def _no_losses(name: str, received: str, action: str, *, size: int | None = None) -> InputError:
    here = "" if size is None else f": here [{size}]"
    expected = f"a loss for each example, float32 [batch]{here}"
    return InputError(f"{_KEY}={name}", received=received, expected=expected, action=action)


def _try(losses: LossOfExamples, found: Callable, name: str, label: Label) -> None:
    """Raises InputError, before anything is trained, for a loss that does not give one number for each
    example, that follows from other examples too, or whose gradient is lost.
    """
    thing, size = f"{_KEY}={name}", label.shape[0] if label.is_ranking else task_of(label).logits(label)
    # As many rows as classes would let labels and logits of other shapes pass.
    rows = _TRIED if size != _TRIED else _TRIED + 2
    labels = tf.range(rows) % len(label.classes) if label.classes else tf.zeros([rows])
    if label.is_ranking:
        labels = tf.zeros([rows, size], tf.int32)
    elif label.shape:
        labels = tf.one_hot(labels, size, dtype=tf.int32) if label.classes else tf.zeros([rows, size])
    batch = f"[{', '.join(map(str, ('batch', *label.shape)))}]"
    expected = f"a loss for {label.task}: of {labels.dtype.name} {batch}, float32 [batch, {size}]"
    otherwise = f"Correct {named(found)}, or choose another loss."
    logits = tf.zeros([rows, size])
    with naming_line(thing, found, expected=expected, otherwise=otherwise), tf.GradientTape() as tape:
        tape.watch(logits)
        given = losses(labels, logits)
    if tape.gradient(given, logits) is None:
        raise InputError(
            thing,
            received="losses without a gradient: they do not follow from the logits, or not smoothly",
            expected="losses whose gradient by the logits TensorFlow can tell",
            action="Look for round, argmax, a comparison, stop_gradient, NumPy, or a cast to whole numbers.",
        )
    with naming_line(thing, found, expected=expected, otherwise=otherwise):
        _require_of_each(losses, name, label, labels, size)


def _require_of_each(losses: LossOfExamples, name: str, label: Label, labels: tf.Tensor, size: int) -> None:
    """Raises InputError for a loss of an example that other examples change, as where labels [batch] less
    logits [batch, 1] make [batch, batch]: it would train in silence, and learn another thing.
    """
    rows = labels.shape[0]
    logits = tf.reshape(tf.linspace(-1.0, 1.0, rows * size), [rows, size])
    if not label.classes or label.is_ranking:
        others = labels + 1
    else:
        others = 1 - labels if label.shape else (labels + 1) % len(label.classes)
    changed = [
        tf.concat([own[:1], new[1:]], axis=0) for own, new in ((labels, others), (logits, 0.5 - logits))
    ]
    whole, again, other = (losses(*pair)[0] for pair in ((labels, logits), (labels, logits), changed))
    if not bool(tf.reduce_all(tf.math.is_finite([whole, again, other]))) or whole != again:
        return  # one that draws random numbers, or that has no number here
    if abs(whole - other) > 1e-4 * max(abs(whole), abs(other)):
        raise InputError(
            f"{_KEY}={name}",
            received="a loss of an example that changes with the other examples of its batch",
            expected="one that follows from its label and its logits alone",
            action=f"Look at the shapes: labels are {_shape(labels)}, logits [batch, {size}]"
            + ("; logits[:, 0] are [batch]." if size == 1 and labels.shape.rank == 1 else "."),
        )


def _shape(labels: tf.Tensor) -> str:
    return f"[{', '.join(map(str, ('batch', *labels.shape[1:])))}]"

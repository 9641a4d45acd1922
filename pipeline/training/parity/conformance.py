"""Tests what training, checkpoints, replicas and exports rely on in a model, with the first batch.

Each check is a comparison whose error is above its tolerance where the model fails it.
"""

import pathlib
import tempfile
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature_types import TokenLabel
from pipeline.report.comparison import Comparison, Difference, comparison, relative_error
from pipeline.training.engine import sight
from pipeline.training.engine.precision import Precision
from pipeline.training.parity.subject import Begins, Subject, unheard
from pipeline.training.replay.stream import Batch

# The largest loss of a new model, as a multiple of the loss of a model that knows nothing: even odds, or the
# mean label.
_LARGEST_FIRST_LOSS = 2.0
_OF_ONE = 1e-4  # for an example by itself and in its batch: sums are in another order
_NONE = 0.5  # for errors that are 0 or 1
_BITS = 1e-12  # smaller than any difference of two float32, so every bit must be the same
_NOISE = 0.1  # added to weights, so that a weight that begins at 0 does not block gradients of others
_MIXED = Precision(policy="mixed_bfloat16", reason="asked for")

Inputs = dict[str, tf.Tensor]


def compare(subject: Subject, *, begins: Begins = unheard) -> Iterator[Comparison]:
    """Tests what a model must do, on the first batch of the subject.

    Args:
      begins: receives the name of each comparison before it is made, which may take a minute.

    Raises:
      InputError: the model cannot be built in float32 or mixed_bfloat16, for example because its logits are
        bfloat16.
    """
    (batch,) = subject.batches(1)
    inputs = subject.rows_of(batch)
    mixed = subject.model(_MIXED)
    begins("first loss")
    yield first_loss(subject, batch)
    begins("gradients")
    yield gradients(subject, batch)
    begins("batch of one")
    yield batch_of_one(subject.model(), inputs)
    if isinstance(subject.schema.label, TokenLabel):
        begins("seen tokens")
        yield seen_tokens(subject.model(), subject.schema.label)
    begins("restored")
    yield restored(mixed, subject.model(_MIXED), inputs)
    begins("export")
    yield exported(mixed, inputs)
    begins("tracing")
    yield traced_again(mixed, inputs)


def first_loss(subject: Subject, batch: Batch) -> Comparison:
    """Compares the mean loss of the first weights with that of a model that knows nothing."""
    inputs, targets = batch
    logits = subject.objective.of_batch(subject.model())(inputs, training=False)
    found, nothing = (
        float(subject.objective.mean_loss(targets, each))
        for each in (logits, tf.zeros_like(logits) + subject.learned.mean)
    )
    return comparison(
        "first loss",
        "the loss of the first weights, as a multiple of that of even odds or the mean label",
        [_difference("mean loss", "ratio", found / nothing, _LARGEST_FIRST_LOSS)],
        advice="The first logits are too large: begin the last layer smaller, or normalise what it gets.",
    )


def gradients(subject: Subject, batch: Batch) -> Comparison:
    """Tests whether the loss changes with every trainable variable."""
    inputs, targets = batch
    model, draw = subject.model(), np.random.default_rng(0)
    variables = model.trainable_variables
    for variable in variables:
        variable.assign(variable + _NOISE * draw.normal(size=variable.shape).astype(variable.dtype))
    with tf.GradientTape() as tape:
        loss = subject.objective.mean_loss(targets, subject.objective.of_batch(model)(inputs, training=True))
    found = tape.gradient(loss, [variable.value for variable in variables])
    return comparison(
        "gradients",
        "every trainable variable has a gradient that is not 0 everywhere",
        [
            _difference(variable.path, "missing", float(not _reaches(gradient)), _NONE)
            for variable, gradient in zip(variables, found, strict=True)
        ],
        advice="Nothing trains these: look for a layer whose result is not used, round, argmax, "
        "stop_gradient, or a ReLU that is always below 0.",
    )


def _reaches(gradient: tf.Tensor | tf.IndexedSlices | None) -> bool:
    return gradient is not None and bool(np.any(tf.convert_to_tensor(gradient)))


def batch_of_one(model: keras.Model, inputs: Inputs) -> Comparison:
    """Tests whether an example's logits depend on other examples of its batch."""
    alone = model({name: each[:1] for name, each in inputs.items()}, training=False)
    together = model(inputs, training=False)[:1]
    return comparison(
        "batch of one",
        "the first example by itself against the same in its batch",
        [_difference("logits", "error", relative_error(alone.numpy(), together.numpy()), _OF_ONE)],
        advice="A layer looks at the whole batch in inference: served answers would depend on each other.",
    )


def seen_tokens(model: keras.Model, label: TokenLabel) -> Comparison:
    """Tests whether the logits at a token change with later tokens, or with another document of its row."""
    name, what = "seen tokens", "logits before and after a change of later tokens, or of other documents"
    found = sight.sight_of(model, label, tf.distribute.get_strategy())
    if found is None:
        why = f"a row has fewer than {sight.SHORTEST} tokens, or gets different logits each time"
        return Comparison(name=name, what=what, skipped=why)
    changes = {"later tokens": found.later, "other documents": found.others}
    return comparison(
        name,
        what,
        [
            _difference(name, "change", change, found.tolerance)
            for name, change in changes.items()
            if change is not None
        ],
        advice=f"The model sees what it is to predict, or another text. {sight.CURE}",
    )


def restored(model: keras.Model, other: keras.Model, inputs: Inputs) -> Comparison:
    """Tests whether a model that is built again gives the same logits once it has the weights."""
    named = [variable.path for variable in model.variables]
    faults = []
    if [tuple(each.shape) for each in model.variables] == [tuple(each.shape) for each in other.variables]:
        for variable, value in zip(other.variables, model.variables, strict=True):
            variable.assign(value)
        faults = [_difference("logits", "error", _error(_graph(other)(inputs), _graph(model)(inputs)), _BITS)]
    else:
        faults = [_difference(f"{len(named)} variables", "other shapes", 1.0, _NONE)]
    return comparison(
        "restored",
        "the model built again, with the same weights, against itself",
        faults,
        advice="Something that changes what the model computes is no variable of it, or is drawn at random.",
    )


def exported(model: keras.Model, inputs: Inputs) -> Comparison:
    """Tests whether a SavedModel gives the same logits after it is loaded again."""
    spec = {
        name: tf.TensorSpec([None, *each.shape[1:]], each.dtype, name=name) for name, each in inputs.items()
    }
    serve = tf.function(lambda batch: model(batch, training=False), input_signature=[spec], autograph=False)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "model")
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("serve", serve)
        archive.write_out(path, verbose=False)
        loaded = tf.saved_model.load(path)  # kept, because its variables live only as long as it does
        found = loaded.serve(inputs)
    return comparison(
        "export",
        "its SavedModel, loaded again, against the graph in memory",
        [_difference("logits", "error", _error(found, serve(inputs)), _BITS)],
        advice="It computes with something that is not saved, such as a Python number that changes.",
    )


def traced_again(model: keras.Model, inputs: Inputs) -> Comparison:
    """Tests whether tracing has side effects: new variables, or other operations the next time."""
    before = len(model.variables)
    fewer = {name: each[:1] for name, each in inputs.items()}
    first, _, again = (_operations(model, each) for each in (inputs, fewer, inputs))
    faults = {
        "other operations": float(first != again),
        "new variables": float(len(model.variables) != before),
    }
    return comparison(
        "tracing",
        "the graph of a second trace against that of the first",
        [Difference(name="graph", errors=faults, tolerances=dict.fromkeys(faults, _NONE))],
        advice="A layer makes variables or changes an attribute in call(): do that in build() or __init__().",
    )


def _operations(model: keras.Model, inputs: Inputs) -> list[str]:
    graph = _graph(model).get_concrete_function(inputs).graph
    return [operation.type for operation in graph.get_operations()]


def _graph(model: keras.Model) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(lambda batch: model(batch, training=False), autograph=False)


def _error(found: tf.Tensor, exact: tf.Tensor) -> float:
    return relative_error(found.numpy(), exact.numpy())


def _difference(name: str, what: str, error: float, tolerance: float) -> Difference:
    return Difference(name=name, errors={what: error}, tolerances={what: tolerance})

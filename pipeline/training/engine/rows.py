"""Updates of tables by rows: a step changes only the rows whose ids its batch has.

A dense update reads and writes the whole table and all that the optimizer keeps about it, however few rows
have a gradient. Here the gradient of a gather stays a list of (id, row):

parts of a batch concatenated → replicas concatenated → rows of equal ids summed → finite? → clipped by global
norm → applied to the rows

`update_by_rows` gives an optimizer the tables; `Update` in step.py asks `is_by_rows` about each variable.
"""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from pipeline.training.engine.replicas import gathered_over_replicas

# Numbers of a table, 16 MB, from which a dense update costs a step tens of milliseconds.
LARGE = 2**22

# (optimizer, gradient with different ids, variable, what the optimizer gives as learning rate)
_Rule = Callable[[keras.optimizers.Optimizer, tf.IndexedSlices, tf.Variable, object], None]


def why_not(optimizer: keras.optimizers.Optimizer) -> str:
    """Says why this optimizer cannot update tables by rows; empty where it can."""
    if getattr(optimizer, "momentum", 0.0):
        return f"the momentum {optimizer.momentum:g} moves every row"
    if optimizer.clipnorm or optimizer.clipvalue:
        return "clipnorm and clipvalue are for each variable as a whole"
    if not _rule(optimizer):
        return f"{type(optimizer).__name__} has no update by rows: adagrad, adam, adamw and sgd have"
    return ""


def update_by_rows(optimizer: keras.optimizers.Optimizer, tables: Sequence[keras.Variable]) -> None:
    """Has the optimizer update these tables by rows wherever their gradient is a gather's.

    Only rows that a step touches are decayed. The norm of all gradients counts each row once. Call it before
    `optimizer` is wrapped or gets rates of its own.
    """
    dense, decay, rule = optimizer.update_step, optimizer._apply_weight_decay, _rule(optimizer)

    def update_step(gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable, rate: object) -> None:
        if isinstance(gradient, tf.IndexedSlices):
            rule(optimizer, gradient, variable, rate)
        else:
            dense(gradient, variable, rate)

    def apply_weight_decay(variables: Sequence[keras.Variable]) -> None:
        decay([each for each in variables if not is_by_rows(optimizer, each)])

    optimizer.tables_by_rows = tuple(map(id, tables))
    optimizer.update_step, optimizer._apply_weight_decay = update_step, apply_weight_decay
    optimizer._clip_gradients = lambda gradients: clipped(gradients, optimizer.global_clipnorm)


def is_by_rows(optimizer: keras.optimizers.Optimizer, variable: keras.Variable) -> bool:
    return id(variable) in getattr(optimizer, "tables_by_rows", ())


def summed(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The sum over all replicas, with each id once. Call it in a replica's context, on all replicas."""
    ids, rows = gathered_over_replicas([gradient.indices, gradient.values])
    different, place = tf.unique(ids)
    added = tf.math.unsorted_segment_sum(rows, place, tf.size(different))
    return tf.IndexedSlices(added, different, gradient.dense_shape)


def added(one: tf.IndexedSlices, other: tf.IndexedSlices) -> tf.IndexedSlices:
    """The sum of two gradients, in which ids may be equal."""
    rows = tf.concat([one.values, other.values], axis=0)
    return tf.IndexedSlices(rows, tf.concat([one.indices, other.indices], axis=0), one.dense_shape)


def clipped(
    gradients: Sequence[tf.Tensor | tf.IndexedSlices], limit: float | None
) -> list[tf.Tensor | tf.IndexedSlices]:
    """Scales the gradients so that their norm is at most `limit`; None or 0: there is no limit.

    Keras (3.15, measured) multiplies all gradients even where nothing is clipped, by 1.
    """
    if not limit:
        return list(gradients)
    norm = tf.linalg.global_norm(gradients)
    return tf.cond(
        norm <= limit,
        lambda: list(gradients),
        # A norm that is not finite comes here, and makes all gradients not finite, as in Keras.
        lambda: tf.clip_by_global_norm(gradients, limit, use_norm=norm)[0],
    )


# --- What an optimizer does to a row: Keras's dense formulas. An optimizer with a method `update_rows`
# (gradient, variable, learning rate) brings its own.


def _rule(optimizer: keras.optimizers.Optimizer) -> _Rule | None:
    if hasattr(optimizer, "update_rows"):
        return lambda own, *args: own.update_rows(*args)
    return {keras.optimizers.SGD: _sgd, keras.optimizers.Adagrad: adagrad}.get(type(optimizer))


def _sgd(
    optimizer: keras.optimizers.SGD, gradient: tf.IndexedSlices, variable: tf.Variable, rate: object
) -> None:
    rate = tf.cast(rate, variable.dtype)
    decay_rows(optimizer, gradient.indices, variable, rate * (optimizer.weight_decay or 0.0))
    subtract(variable, gradient.indices, rate * gradient.values)


def adagrad(
    optimizer: keras.optimizers.Adagrad, gradient: tf.IndexedSlices, variable: tf.Variable, rate: object
) -> None:
    """a += g²;  w −= rate × g / √(a + ε)   (Duchi et al. 2011, with Keras's epsilon)."""
    rate, ids = tf.cast(rate, variable.dtype), gradient.indices
    decay_rows(optimizer, ids, variable, rate * (optimizer.weight_decay or 0.0))
    # Keras (3.15) has no public name for the sums of a variable.
    squares = optimizer._accumulators[optimizer._get_variable_index(variable)].value
    sums = rows_of(squares, ids) + tf.square(gradient.values)
    put(squares, ids, sums)
    subtract(variable, ids, rate * gradient.values / tf.sqrt(sums + optimizer.epsilon))


def decay_rows(
    optimizer: keras.optimizers.Optimizer, ids: tf.Tensor, variable: tf.Variable, decay: tf.Tensor
) -> None:
    """Multiplies the rows by 1 − `decay`, where the optimizer decays this variable."""
    if optimizer.weight_decay and optimizer._use_weight_decay(variable):
        subtract(variable, ids, decay * rows_of(variable, ids))


# --- Rows of a variable, by its handle: TensorFlow's gather and scatter neither read nor copy the rest.


def rows_of(variable: tf.Variable, ids: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.ResourceGather(resource=variable.handle, indices=ids, dtype=variable.dtype)


def put(variable: tf.Variable, ids: tf.Tensor, rows: tf.Tensor) -> None:
    tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=ids, updates=rows)


def subtract(variable: tf.Variable, ids: tf.Tensor, rows: tf.Tensor) -> None:
    tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=ids, updates=rows)

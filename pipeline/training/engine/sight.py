"""Tests which tokens of a row a model of the next token sees.

The logits at a place must follow from the tokens up to it, in its own document. So in rows that differ in
other tokens they must be the same. A model that looks ahead has the answer among its inputs: its loss and its
accuracy are excellent, and it can write no text.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.schema.feature_types import TokenLabel

CURE = (
    "Mask what comes later: use_causal_mask=True in MultiHeadAttention, padding='causal' in Conv1D, no "
    "Bidirectional; and let no token see one with another number in `segments`."
)
SHORTEST = 6  # tokens of a row that has two documents, each with a token that can change
# The largest change of logits that is rounding alone, as a part of their size. A layer that sees too much
# changes them by a twentieth or more.
TOLERANCES = {"float32": 1e-3}
_OF_FEWER_BITS = 0.01  # bfloat16 has 8 significant bits
_LEAST_SIZE = 0.1  # as a part of the size at all places
_SMALL = 0.1  # a scale below it hides its branch
_NOISE = 0.1  # size of weights in place of those that are all 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sight:
    """How much logits change with tokens that must not count, as a part of their size; NaN where logits are.

    Attributes:
      later: with later tokens.
      others: with tokens of another document in the row; None where no input numbers the documents.
      tolerance: the largest change that is rounding.
    """

    later: float
    others: float | None
    tolerance: float

    @property
    def is_ahead(self) -> bool:
        return self.later > self.tolerance

    @property
    def is_astray(self) -> bool:
        return self.others is not None and self.others > self.tolerance


def sight_of(model: keras.Model, label: TokenLabel, strategy: tf.distribute.Strategy) -> Sight | None:
    """Compares the logits of pairs of rows. None if rows have fewer than `SHORTEST` tokens, or if the model
    draws random numbers, so that the same row gets different logits each time.

    Each row is a batch of its own, because the rows of a batch share the capacity of layers such as a mixture
    of experts. Weights that are all 0, or all one small number, get larger values meanwhile: a branch that
    begins with such a factor (layer scale, Touvron et al. 2021) hides what it sees.
    """
    if label.length < SHORTEST:
        return None
    rows = _rows(label)
    tolerance = TOLERANCES.get(model.compute_dtype, _OF_FEWER_BITS)

    def logits_of(inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = tf.cast(model(inputs, training=False), tf.float32)
        return logits - tf.reduce_mean(logits, axis=-1, keepdims=True)

    def replica(one: dict[str, tf.Tensor], other: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = logits_of(one)
        sizes = tf.norm(logits, axis=-1)  # (1, length)
        # Where logits happen to be near 0, rounding is no small part of them.
        sizes = tf.maximum(sizes, _LEAST_SIZE * tf.sqrt(tf.reduce_mean(sizes**2)))
        return tf.norm(logits_of(other) - logits, axis=-1) / sizes

    @tf.function(autograph=False)
    def forward(one: dict[str, tf.Tensor], other: dict[str, tf.Tensor]) -> tf.Tensor:
        return strategy.run(replica, args=(one, other))

    def change(other: np.ndarray) -> np.ndarray:
        pair = (_inputs(model, label, each, rows.segments) for each in (rows.tokens[0], other))
        return strategy.experimental_local_results(forward(*pair))[0].numpy()[0]

    with _nowhere_small(model.trainable_variables):
        if np.max(change(rows.tokens[0])) > tolerance:
            return None
        changes = np.stack([change(other) for other in rows.tokens[1:]])
    return Sight(
        later=float(np.max(changes[rows.precedes])),
        others=float(np.max(changes[rows.is_apart])) if rows.is_apart.any() else None,
        tolerance=tolerance,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows of tokens: the first, and some in which tokens at the end of a document are others: many but its
    last one, or its last one alone.

    Attributes:
      tokens: int32 [rows, length]; segments: int32 [length], the number of each token's document.
      precedes: bool [rows - 1, length], places before those that changed, in the same document or before it.
      is_apart: the same shape, places after them, in another document.
    """

    tokens: np.ndarray
    segments: np.ndarray
    precedes: np.ndarray
    is_apart: np.ndarray


def _rows(label: TokenLabel) -> _Rows:
    """Two documents, or one where nothing numbers them; the ids are those of a dataset.

    What changes is one token in many places, so that an average over the row changes too. It begins at an
    odd place: a layer that sees blocks of 2ⁿ tokens must not have its border there.
    """
    length, size = label.length, label.vocabulary_size
    draw = np.random.default_rng(0)
    base = draw.integers(size, size=length, dtype=np.int32)
    second = length // 2 if len(label.parts) > 1 else length
    spans = [(0, second), (second, length)] if second < length else [(0, length)]
    changed, places = [], np.arange(length)
    for start, end in spans:
        # The last token stays: models may take it for the end of the document.
        begin = start + min(((end - start) // 3) | 1, end - start - 2)
        base[begin:end] = (size - 1) // 2
        changed += [(begin, end - 1), (end - 1, end)]
    tokens = np.stack([base] * (1 + len(changed)))
    for row, (begin, end) in enumerate(changed, start=1):
        tokens[row, begin:end] = size - 1
    ends = {end for _, end in spans}
    return _Rows(
        tokens=tokens,
        segments=1 + (places >= second).astype(np.int32),
        precedes=np.stack([places < begin for begin, _ in changed]),
        # Where the last token changes, a model that takes it for the end may see the next document otherwise.
        is_apart=np.stack([(places > end) & (end not in ends) for _, end in changed]),
    )


def _inputs(
    model: keras.Model, label: TokenLabel, tokens: np.ndarray, segments: np.ndarray
) -> dict[str, tf.Tensor]:
    """The inputs of a row, as models get them: ids begin with 1. Inputs of other features are 0."""
    known = dict(zip(label.parts, (tokens, segments), strict=False))
    return {
        each.name: tf.constant(known[each.name][np.newaxis] + 1)
        if each.name in known
        else tf.zeros((1, *each.shape[1:]), each.dtype)
        for each in model.inputs
    }


@contextlib.contextmanager
def _nowhere_small(variables: Sequence[keras.Variable]) -> Iterator[None]:
    """Within the block, variables that are 0 everywhere have small random values, and other small scales are
    1 or -1.
    """
    values = [(each, _small_value(each)) for each in variables]
    small = [(variable, value) for variable, value in values if value is not None]
    draw = np.random.default_rng(0)
    try:
        for variable, value in small:
            other = (
                np.copysign(np.ones(variable.shape), value)
                if value
                else _NOISE * draw.normal(size=variable.shape)
            )
            variable.assign(other.astype("float32"))
        yield
    finally:
        for variable, value in small:
            variable.assign(np.full(variable.shape, value, "float32"))


def _small_value(variable: keras.Variable) -> float | None:
    """Returns the value that all elements have, if it is small; else None."""
    values = np.asarray(variable)
    if not values.size or abs(values.flat[0]) >= _SMALL or np.any(values != values.flat[0]):
        return None
    return float(values.flat[0])

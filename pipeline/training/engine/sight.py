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
    """Computes one batch of three rows; None where rows have fewer than `SHORTEST` tokens.

    Weights that are all 0 are noise meanwhile, because a branch that begins at 0 hides what it sees.
    """
    if label.length < SHORTEST:
        return None
    rows = _rows(label)
    inputs = _inputs(model, label, rows)

    def replica() -> tf.Tensor:
        logits = model(inputs, training=False)
        logits = tf.cast(logits, tf.float32) - tf.reduce_mean(logits, axis=-1, keepdims=True)
        sizes = tf.norm(logits[:1], axis=-1)  # (1, length)
        # Where logits happen to be near 0, rounding is no small part of them.
        sizes = tf.maximum(sizes, _LEAST_SIZE * tf.sqrt(tf.reduce_mean(sizes**2)))
        return tf.norm(logits[1:] - logits[:1], axis=-1) / sizes  # (changed rows, length)

    @tf.function(autograph=False)
    def forward() -> tf.Tensor:
        return strategy.run(replica)

    with _nowhere_zero(model.trainable_variables):
        changes = strategy.experimental_local_results(forward())[0].numpy()
    return Sight(
        later=float(np.max(changes[rows.precedes])),
        others=float(np.max(changes[rows.is_apart])) if rows.is_apart.any() else None,
        tolerance=TOLERANCES.get(model.compute_dtype, _OF_FEWER_BITS),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows of tokens: the first, and some in which tokens at the end of a document are others.

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
        base[begin : end - 1] = (size - 1) // 2
        changed.append((begin, end))
    tokens = np.stack([base] * (1 + len(changed)))
    for row, (begin, end) in enumerate(changed, start=1):
        tokens[row, begin : end - 1] = size - 1
    return _Rows(
        tokens=tokens,
        segments=1 + (places >= second).astype(np.int32),
        precedes=np.stack([places < begin for begin, _ in changed]),
        is_apart=np.stack([places >= end for _, end in changed]),
    )


def _inputs(model: keras.Model, label: TokenLabel, rows: _Rows) -> dict[str, tf.Tensor]:
    """The inputs of the rows, as models get them: ids begin with 1. Inputs of other features are 0."""
    count = len(rows.tokens)
    known = dict(zip(label.parts, (rows.tokens, np.stack([rows.segments] * count)), strict=False))
    return {
        each.name: tf.constant(known[each.name] + 1)
        if each.name in known
        else tf.zeros((count, *each.shape[1:]), each.dtype)
        for each in model.inputs
    }


@contextlib.contextmanager
def _nowhere_zero(variables: Sequence[keras.Variable]) -> Iterator[None]:
    """Within the block, variables that are 0 everywhere have small random values."""
    zeros = [variable for variable in variables if not np.any(variable)]
    draw = np.random.default_rng(0)
    try:
        for variable in zeros:
            variable.assign(_NOISE * draw.normal(size=variable.shape).astype("float32"))
        yield
    finally:
        for variable in zeros:
            variable.assign(np.zeros(variable.shape, "float32"))

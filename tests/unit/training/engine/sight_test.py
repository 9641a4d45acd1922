"""What a model of the next token sees of a row: leaks of each kind are found, and sound models are not."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from models.transformer import transformer
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.training.engine import sight
from pipeline.training.engine import strategy as strategy_lib

LENGTH, SIZE = 24, 30
LABEL = TokenLabel(name="tokens", parts=("tokens", "segments"), length=LENGTH, vocabulary_size=SIZE)
ROW_IS_DOCUMENT = TokenLabel(name="tokens", parts=("tokens",), length=LENGTH, vocabulary_size=SIZE)


def found(made: keras.Model, label: TokenLabel = LABEL) -> sight.Sight:
    return sight.sight_of(made, label, tf.distribute.get_strategy())


def shipped(**more) -> keras.Model:
    sequences = {"tokens": (LENGTH, SIZE + 1), "segments": (LENGTH, LENGTH + 2)}
    return transformer(sequences=sequences, outputs=SIZE, width=16, depth=2, heads=2, **more)


def model(mix, *, begins_at=0.3) -> keras.Model:
    """Embedded tokens, then `mix` of them and the segments, then logits."""
    tokens, segments = (keras.Input((LENGTH,), dtype="int32", name=name) for name in LABEL.parts)
    x = layers.Embedding(SIZE + 1, 8)(tokens)
    x = x + layers.Dense(8, kernel_initializer=keras.initializers.RandomUniform(0, begins_at))(
        mix(x, segments)
    )
    return keras.Model([tokens, segments], layers.Dense(SIZE, dtype="float32")(x))


def test_the_shipped_transformer_sees_what_it_may():
    seen = found(shipped())
    assert (seen.later, seen.others) == pytest.approx((0.0, 0.0), abs=1e-5)
    assert not seen.is_ahead
    assert not seen.is_astray


def test_bfloat16_is_no_leak():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        seen = found(shipped())
    finally:
        keras.config.set_dtype_policy("float32")
    assert not seen.is_ahead
    assert not seen.is_astray


def test_a_recurrent_layer_sees_the_document_before():
    seen = found(model(lambda x, _: layers.GRU(8, return_sequences=True)(x)))
    assert seen.later == pytest.approx(0.0, abs=1e-5)
    assert seen.is_astray
    label = ROW_IS_DOCUMENT
    assert found(model(lambda x, _: layers.GRU(8, return_sequences=True)(x)), label).others is None


LEAKS = {
    "both directions": lambda x, _: layers.Bidirectional(layers.GRU(8, return_sequences=True))(x),
    "a convolution": lambda x, _: layers.Conv1D(8, 3, padding="same")(x),
    "attention": lambda x, _: layers.MultiHeadAttention(2, 4)(x, x),
    "the mean of a row": lambda x, _: x + ops.mean(x, axis=1, keepdims=True),
    "the last token": lambda x, _: x + x[:, -1:],
    "blocks of 4": lambda x, _: ops.repeat(ops.mean(ops.reshape(x, (-1, 6, 4, 8)), axis=2), 4, axis=1),
}


@pytest.mark.parametrize("mix", LEAKS.values(), ids=LEAKS)
def test_a_model_that_looks_ahead_is_found(mix):
    assert found(model(mix)).is_ahead
    assert found(model(mix), ROW_IS_DOCUMENT).is_ahead


def test_a_branch_that_begins_at_0_is_found_and_is_0_again():
    made = model(lambda x, _: layers.Bidirectional(layers.GRU(8, return_sequences=True))(x), begins_at=0.0)
    before = made.get_weights()
    assert found(made).is_ahead
    for one, other in zip(made.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


class Experts(layers.Layer):
    """Two experts, each for half of a batch's tokens, first come, first served (Fedus et al. 2021)."""

    def build(self, shape):
        self.choice = self.add_weight(shape=(shape[-1], 2), name="choice")
        self.kernel = self.add_weight(shape=(2, shape[-1], shape[-1]), name="kernel")

    def call(self, x):
        tokens = ops.reshape(x, (-1, x.shape[-1]))
        share = ops.softmax(tokens @ self.choice)
        chosen = ops.one_hot(ops.argmax(share, axis=-1), 2)
        place = ops.sum(ops.cumsum(chosen, axis=0) * chosen, axis=-1, keepdims=True)
        is_kept = ops.cast(2 * place <= ops.cast(ops.shape(tokens)[0], x.dtype), x.dtype)
        answers = ops.einsum("nd,edf,ne->nf", tokens, self.kernel, share * chosen)
        return ops.reshape(answers * is_kept, ops.shape(x))


def test_experts_that_share_a_batch_look_ahead_nowhere():
    assert not found(model(lambda x, _: Experts()(layers.GRU(8, return_sequences=True)(x)))).is_ahead


def test_a_model_that_draws_random_numbers_is_not_compared():
    class Noise(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed = keras.random.SeedGenerator(0)

        def call(self, x):
            return x + keras.random.normal(ops.shape(x), seed=self.seed)

    assert found(model(lambda x, _: Noise()(x))) is None


@pytest.mark.parametrize("scale", [0.01, 1e-6])
def test_a_branch_with_a_small_scale_is_found_and_has_it_again(scale):
    class Scale(layers.Layer):  # Touvron et al. 2021, "layer scale"
        def build(self, shape):
            self.scale = self.add_weight(
                shape=(shape[-1],), initializer=keras.initializers.Constant(scale), name="scale"
            )

        def call(self, x):
            return x * self.scale

    made = model(lambda x, _: Scale()(layers.MultiHeadAttention(2, 4)(x, x)))
    before = made.get_weights()
    assert found(made).is_ahead
    for one, other in zip(made.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_attention_within_a_document_looks_ahead_there():
    def mix(x, segments):
        same = ops.equal(ops.expand_dims(segments, 1), ops.expand_dims(segments, 2))
        return layers.MultiHeadAttention(2, 4)(x, x, attention_mask=same)

    seen = found(model(mix))
    assert seen.is_ahead
    assert not seen.is_astray


def test_replicas_find_the_same():
    strategy = strategy_lib.create("mirrored", logical_devices=2)
    with strategy.scope():
        made = model(LEAKS["both directions"])
    assert sight.sight_of(made, LABEL, strategy).is_ahead


def test_very_short_rows_are_not_compared():
    label = TokenLabel(name="tokens", parts=("tokens",), length=sight.SHORTEST - 1, vocabulary_size=SIZE)
    assert found(shipped(), label) is None

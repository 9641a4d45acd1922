"""The next token: which tokens are predicted, and steps whose rows have different numbers of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.transformer import transformer
from pipeline.data.reading.parsing import predicted
from pipeline.data.schema.feature_types import Label, TokenLabel, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.tasks.next_token import NextToken
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import EvaluationMetrics, task_of
from tests.shared.matrix import quick_cases

TOKENS = np.array([[5, 6, 1, 7], [1, 8, 9, 1], [4, 4, 0, 0], [3, 0, 0, 0]], "int32")
SEGMENTS = np.array([[1, 1, 1, 2], [1, 2, 2, 2], [1, 1, 0, 0], [1, 0, 0, 0]], "int32")
LABELS = np.array([[-1, 6, 1, -1], [-1, -1, 9, 1], [-1, 4, -1, -1], [-1] * 4], "int32")
TEXT = Schema(
    name="text",
    features=(
        Tokens(name="tokens", length=4, vocabulary_size=10, tokenizer="bytes"),
        Tokens(name="segments", length=4, vocabulary_size=5),
    ),
)


def test_no_token_is_predicted_across_the_end_of_a_document_or_in_padding():
    np.testing.assert_array_equal(predicted(tf.constant(TOKENS), tf.constant(SEGMENTS)), LABELS)
    np.testing.assert_array_equal(predicted(tf.constant(TOKENS))[:, 1:], TOKENS[:, 1:])


def test_tokens_without_a_label_are_their_own():
    label = TEXT.label
    assert (label.task, label.parts, label.shape) == ("next_token", ("tokens", "segments"), (4,))
    assert [feature.name for feature in TEXT.inputs] == ["tokens", "segments"]
    other = Schema(name="text", features=(*TEXT.features, Label(name="y", task="regression")))
    assert other.label.name == "y"


def test_bits_a_byte_are_told_where_tokens_are_bytes():
    task, known = NextToken(), TEXT.label
    assert "bits_per_byte" in task.logged(known)
    unknown = TokenLabel(name="tokens", parts=("tokens",), length=4, vocabulary_size=10, tokenizer="t.json")
    assert "bits_per_byte" not in task.logged(unknown)
    metrics = EvaluationMetrics(unknown)
    metrics.update(LABELS, np.zeros((4, 4, 2)))
    assert "bits_per_byte" not in metrics.result()


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    sequences = {"tokens": (4, 11), "segments": (4, 6)}
    return transformer(sequences=sequences, outputs=10, width=4, depth=1, heads=1, key_value_heads=1)


def stepped(name: str, parts: int) -> tuple[list[np.ndarray], float]:
    """The weights after a step of gradient descent under a strategy and in micro-batches, and its loss."""
    strategy = strategy_lib.create(name)
    with strategy.scope():
        made, optimizer = model(), keras.optimizers.SGD(1.0)
        optimizer.build(made.trainable_variables)
    step = train_step(made, optimizer, task=Objective(task=NextToken()), global_batch=4, micro_batches=parts)

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        inputs = {"tokens": TOKENS + 1, "segments": SEGMENTS + 1}
        examples = tf.data.Dataset.from_tensor_slices((inputs, LABELS)).repeat()
        return examples.batch(context.get_per_replica_batch_size(4), drop_remainder=True)

    tally = inner_loop(strategy, step, iter(distributed(strategy, batches)))(1)
    return [np.asarray(each) for each in made.trainable_variables], tally.loss / 4


def by_hand() -> tuple[list[np.ndarray], float]:
    """The same, from the mean over the five predicted tokens, written out."""
    made = model()
    with tf.GradientTape() as tape:
        logits = made({"tokens": tf.constant(TOKENS + 1), "segments": tf.constant(SEGMENTS + 1)})
        logs = tf.nn.log_softmax(logits)
        places = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 1)]
        loss = -sum(logs[row, at - 1, TOKENS[row, at]] for row, at in places) / len(places)
    gradients = tape.gradient(loss, made.trainable_variables)
    pairs = zip(made.trainable_variables, gradients, strict=True)
    return [np.asarray(each) - np.asarray(tf.convert_to_tensor(gradient)) for each, gradient in pairs], loss


@pytest.mark.parametrize(
    ("name", "parts"),
    quick_cases(
        [("one_device", 1), ("one_device", 2), ("mirrored", 1), ("mirrored", 2)],
        [("one_device", 1), ("mirrored", 2)],
    ),
)
def test_a_step_takes_the_mean_over_tokens_whatever_row_they_are_in(name, parts):
    expected, loss = by_hand()
    weights, found = stepped(name, parts)
    assert found == pytest.approx(float(loss), rel=1e-5)
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_of_equal_tokens_the_first_is_the_answer():
    inputs = {"tokens": tf.constant(TOKENS + 1), "segments": tf.constant(SEGMENTS + 1)}
    label, metrics = TEXT.label, EvaluationMetrics(TEXT.label)
    logits = tf.zeros([*TOKENS.shape, label.vocabulary_size])
    metrics.update(LABELS, task_of(label).answers(label, inputs, logits).numpy())
    assert metrics.result()["accuracy"] == np.mean(LABELS[LABELS >= 0] == 0)


def test_an_evaluation_and_a_step_have_one_loss():
    logits = model()({"tokens": tf.constant(TOKENS + 1), "segments": tf.constant(SEGMENTS + 1)})
    label, metrics = TEXT.label, EvaluationMetrics(TEXT.label)
    inputs = {"tokens": tf.constant(TOKENS + 1), "segments": tf.constant(SEGMENTS + 1)}
    metrics.update(LABELS, task_of(label).answers(label, inputs, logits).numpy())
    mean = Objective(task=NextToken()).mean_loss(tf.constant(LABELS), logits)
    assert metrics.result()["loss"] == pytest.approx(float(mean), rel=1e-6)
    assert metrics.result()["tokens"] == 5

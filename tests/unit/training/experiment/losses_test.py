"""Losses that a config names: beside Keras's, and the same step on one replica, on two and in parts."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import LabelScale
from pipeline.data.schema.feature_types import Label, LabelGroup, TokenLabel
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.experiment import losses
from pipeline.training.experiment.config import OwnLoss
from pipeline.training.tasks.objective import LossOfExamples, Objective
from pipeline.training.tasks.registry import task_of

BINARY = Label(name="y", classes=("no", "yes"))
MANY = Label(name="y", task="multiclass", classes=("a", "b", "c"))
PRICE = Label(name="y", task="regression")
SCALE = LabelScale(mean=20.0, spread=5.0)

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(24, 3)).astype("float32")
CLASSES = np.arange(24, dtype="int32") % 3
PRICES = DRAW.normal(20.0, 5.0, 24).astype("float32")


def asymmetric(labels: tf.Tensor, logits: tf.Tensor, *, missed: float = 4.0) -> tf.Tensor:
    """A loss of one's own: a squared error that costs more where a positive is missed."""
    errors = tf.cast(labels, tf.float32) - tf.sigmoid(logits[:, 0])
    return tf.where(errors > 0, missed, 1.0) * errors**2


def mean_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(asymmetric(labels, logits))


def of_one_logit(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Takes two classes for one: right for labels of 0 alone."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def of_all_pairs(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Keras's habit, with labels [batch] and logits [batch, 1]: the differences are [batch, batch]."""
    return tf.reduce_mean((labels - logits) ** 2, axis=-1)


def nothing(labels: tf.Tensor, logits: tf.Tensor) -> None:
    pass


def rounded(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.argmax(logits, axis=-1), tf.float32)


def ends(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    sys.exit(0)


class Failing(keras.losses.Loss):
    def __init__(self) -> None:
        raise KeyError("which")


OWN = f"{__name__}:asymmetric"


class Rare(keras.losses.CategoricalCrossentropy):
    """What it takes, its base class says, and not its name."""


class Counted(keras.losses.SparseCategoricalCrossentropy):
    pass


class Margin(keras.losses.Hinge):
    pass


def test_a_loss_of_ratios_takes_labels_in_their_own_unit():
    loss = losses.build(OwnLoss(name="MeanSquaredLogarithmicError", options={}), PRICE, LabelScale())
    found = loss(tf.constant([3.0]), tf.constant([[8.0]]))
    np.testing.assert_allclose(found, [(np.log(4.0) - np.log(9.0)) ** 2], rtol=1e-6)


def built(name: str, label: Label, **options: object) -> LossOfExamples:
    return losses.build(OwnLoss(name=name, options=options), label, SCALE)


def test_a_multilabel_takes_losses_of_each_class_alone():
    tags = Label(name="y", task="multilabel", classes=("a", "b", "c"))
    labels, logits = np.eye(3, dtype="int32")[CLASSES], DRAW.normal(size=(24, 3)).astype("float32")
    found = built("BinaryFocalCrossentropy(gamma=1.5)", tags)(tf.constant(labels), tf.constant(logits))
    p = 1 / (1 + np.exp(-logits.astype("float64")))
    right = np.where(labels == 1, p, 1 - p)
    np.testing.assert_allclose(found, (-((1 - right) ** 1.5) * np.log(right)).mean(axis=1), rtol=1e-4)
    for name in ("CategoricalCrossentropy", "SparseCategoricalCrossentropy"):
        with pytest.raises(InputError, match=r"exactly one class; .*such as Binary"):
            built(name, tags)


def test_several_targets_have_a_loss_in_their_own_units():
    two = LabelGroup(name="a, b", task="multitarget", parts=("a", "b"))
    scale = LabelScale(mean=(20.0, 1e6), spread=(5.0, 1e5))
    made = losses.build(OwnLoss(name="MeanAbsoluteError", options={}), two, scale)
    found = made(tf.constant([[20.0, 1e6]]), tf.constant([[25.0, 1.2e6]]))
    assert found.numpy() == pytest.approx([(1 + 2) / 2])


@pytest.mark.parametrize("name", ["MeanSquaredError", "CategoricalCrossentropy"])  # of a square, both fit
def test_tokens_have_no_loss_but_their_own(name):
    tokens = TokenLabel(name="tokens", parts=("tokens",), length=4, vocabulary_size=4)
    with pytest.raises(InputError, match=r"expected none: the loss is the mean over the predicted tokens"):
        losses.build(OwnLoss(name=name, options={}), tokens, LabelScale())


def test_without_a_name_the_loss_is_the_tasks():
    assert built("", BINARY) is None


def test_losses_of_keras_get_what_they_take():
    logits, many = X[:, :1], X
    yes = (CLASSES == 1).astype("float32")[:, None]
    one_hot, softmax = np.eye(3, dtype="float32")[CLASSES], tf.nn.softmax(many)
    standard = (PRICES[:, None] - 20.0) / 5.0
    values = 20.0 + 5.0 * logits
    for found, expected in [
        (
            built("BinaryFocalCrossentropy", BINARY, gamma=3.0)(CLASSES == 1, logits),
            keras.losses.binary_focal_crossentropy(yes, logits, gamma=3.0, from_logits=True),
        ),
        (built("Hinge", BINARY)(CLASSES == 1, logits), keras.losses.hinge(yes, logits)),
        (
            built("MeanSquaredError", BINARY)(CLASSES == 1, logits),
            keras.losses.mean_squared_error(yes, tf.sigmoid(logits)),
        ),
        (
            built("SparseCategoricalCrossentropy", MANY)(CLASSES, many),
            keras.losses.sparse_categorical_crossentropy(CLASSES, many, from_logits=True),
        ),
        (
            built("CategoricalCrossentropy(label_smoothing=0.1)", MANY)(CLASSES, many),
            keras.losses.categorical_crossentropy(one_hot, many, from_logits=True, label_smoothing=0.1),
        ),
        (
            built("keras.losses:KLDivergence", MANY)(CLASSES, many),
            keras.losses.kl_divergence(one_hot, softmax),
        ),
        (built("Huber(delta=0.5)", PRICE)(PRICES, values), keras.losses.huber(standard, logits, delta=0.5)),
        (
            built("keras.losses:log_cosh", PRICE)(PRICES, values),
            keras.losses.log_cosh(standard, logits),
        ),
        (built(OWN, BINARY, missed=2.0)(CLASSES % 2, logits), asymmetric(CLASSES % 2, logits, missed=2.0)),
    ]:
        assert (found.dtype, found.shape) == (tf.float32, [24])
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "label", "base"),
    [
        (f"{__name__}:Rare", BINARY, "CategoricalCrossentropy"),
        (f"{__name__}:Counted", BINARY, "SparseCategoricalCrossentropy"),
        (f"{__name__}:Counted", MANY, "SparseCategoricalCrossentropy"),
        (f"{__name__}:Margin", BINARY, "Hinge"),
    ],
)
def test_a_subclass_gets_what_its_base_class_takes(name, label, base):
    labels = np.arange(24, dtype="int32") % len(label.classes)
    logits = X[:, : task_of(label).logits(label)]
    found = built(name, label)(labels, logits)
    np.testing.assert_array_equal(found, built(base, label)(labels, logits))
    assert np.any(found.numpy() > 0)


def test_the_generalized_cross_entropy_takes_class_indices():
    found = built("CategoricalGeneralizedCrossEntropy(q=0.3)", MANY)(CLASSES, X)
    chances = tf.nn.softmax(X).numpy()[np.arange(24), CLASSES]
    np.testing.assert_allclose(found, (1 - chances**0.3) / 0.3, rtol=1e-5)


def test_a_loss_of_directions_is_refused_for_single_numbers():
    with pytest.raises(InputError, match=r"loss\.name=CosineSimilarity: received a loss of directions"):
        built("CosineSimilarity", PRICE)


@pytest.mark.parametrize(
    "name",
    [
        "BinaryCrossentropy",
        "BinaryCrossentropy(from_logits=False)",
        "CategoricalCrossentropy",
        "CategoricalCrossentropy(from_logits=False)",
        "SparseCategoricalCrossentropy",
        "KLDivergence",
    ],
)
def test_every_cross_entropy_of_two_classes_is_the_same(name):
    labels, logits = np.array([0, 1, 1, 0], "int32"), np.array([[-2.0], [3.0], [-1.0], [0.5]], "float32")
    own = np.where(labels == 1, logits[:, 0], -logits[:, 0])
    np.testing.assert_allclose(built(name, BINARY)(labels, logits), np.log1p(np.exp(-own)), rtol=1e-4)


def stepped(name: str, label: Label, strategy_name: str, parts: int) -> list[np.ndarray]:
    """The weights after three steps of SGD on one global batch, where each class weighs another."""
    strategy = strategy_lib.create(strategy_name)
    with strategy.scope():
        inputs = keras.Input((3,), name="numeric")
        size = task_of(label).logits(label)
        start = keras.initializers.GlorotUniform(seed=1)
        model = keras.Model([inputs], keras.layers.Dense(size, kernel_initializer=start)(inputs))
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.build(model.trainable_variables)
    objective = Objective(
        task=task_of(label), own=built(name, label), class_weights=(0.5, 2.0, 1.0)[: len(label.classes)]
    )
    step = train_step(model, optimizer, task=objective, global_batch=24, micro_batches=parts)
    targets = CLASSES % len(label.classes) if label.classes else PRICES

    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        examples = tf.data.Dataset.from_tensor_slices(({"numeric": X}, targets)).repeat()
        return examples.batch(context.get_per_replica_batch_size(24), drop_remainder=True)

    inner_loop(strategy, step, iter(distributed(strategy, batches)))(1)
    return [np.asarray(each) for each in model.weights]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (OWN, BINARY),
        pytest.param("CategoricalFocalCrossentropy", MANY, marks=pytest.mark.slow),
        pytest.param("Huber", PRICE, marks=pytest.mark.slow),
    ],
)
def test_a_step_is_the_same_on_two_replicas_and_in_parts(name, label):
    alone = stepped(name, label, "one_device", 1)
    for strategy, parts in (("mirrored", 1), ("mirrored", 3)):
        for ours, expected in zip(stepped(name, label, strategy, parts), alone, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "label", "options", "message"),
    [
        (
            f"{__name__}:mean_loss",
            BINARY,
            {},
            r"received one number for the whole batch; .*before their mean",
        ),
        (f"{__name__}:of_one_logit", BINARY, {}, r"received InvalidArgumentError: .*a label value of 1"),
        (
            f"{__name__}:of_all_pairs",
            PRICE,
            {},
            r"changes with the other examples.*logits\[:, 0\] are \[batch\]",
        ),
        (f"{__name__}:nothing", BINARY, {}, r"received None; expected a loss for each example"),
        (f"{__name__}:rounded", MANY, {}, r"received losses without a gradient.*argmax"),
        (f"{__name__}:ends", MANY, {}, r"received SystemExit: 0; .* Correct .*losses_test\.py, line \d+\.$"),
        (
            f"{__name__}:Failing",
            MANY,
            {},
            r"received KeyError: 'which'; .*losses_test\.py, line \d+, or the arg",
        ),
        ("Dice", BINARY, {}, r"received one number for the whole batch"),
        (
            "Hubber",
            PRICE,
            {},
            r"received no Hubber in .*losses.*; .*Did you mean keras.losses:Huber",
        ),
        ("Huber", PRICE, {"dleta": 1.0}, r"dleta"),
        (OWN, BINARY, {"mised": 1.0}, r"received the argument 'mised'; .*Did you mean 'missed'"),
        ("nowhere:loss", BINARY, {}, r"received no module nowhere; .*PYTHONPATH"),
        ("Poisson", PRICE, {}, r"half of them negative .*; .*Set --config.train.standardise_labels=false"),
        ("mean_absolute_percentage_error", PRICE, {}, r"standardise_labels=false"),
        (OWN, MANY, {"missed": "much"}, r"received \w+Error: .*; expected a loss for multiclass"),
    ],
)
def test_what_is_no_loss_of_examples_is_refused(name, label, options, message):
    with pytest.raises(InputError, match=message):
        built(name, label, **options)


def test_an_argument_without_a_loss_is_refused():
    assert losses.build(OwnLoss(name="", options={}), PRICE, LabelScale()) is None
    with pytest.raises(
        InputError, match=r"--config.loss.standardise_labels: received 1; expected no argument"
    ):
        losses.build(OwnLoss(name="", options={"standardise_labels": 1}), PRICE, LabelScale())

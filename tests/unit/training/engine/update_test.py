"""Updates beside NumPy's: the same numbers on one replica and on two."""

from collections.abc import Sequence

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.embedding import OffsetEmbedding
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.training.engine import replicas
from pipeline.training.engine import step as step_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import FLOAT32
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.engine.step import train_step
from pipeline.training.experiment import optimizer as optimizer_lib
from pipeline.training.experiment.model import freeze
from pipeline.training.tasks.classification import Binary, Regression
from tests.shared.parsed import parsed

STRATEGIES = ("one_device", "mirrored")  # tests have two logical CPUs
IDS = np.array([[3], [3], [1], [3], [0], [3], [1], [2]], "int32")
LABELS = np.arange(8, dtype="float32") - 2
START = np.linspace(-1, 1, 5, dtype="float32")[:, None]  # of a table with 5 rows


def table() -> keras.Model:
    """Predicts an entry of a table: its gradients are sparse."""
    ids = keras.Input((1,), dtype="int32", name="ids")
    entry = keras.layers.Embedding(5, 1, embeddings_initializer=keras.initializers.Constant(START))(ids)
    return keras.Model([ids], keras.layers.Reshape((1,))(entry))


def line(**settings) -> keras.Model:
    """Predicts a multiple of its input."""
    x = keras.Input((1,), name="x")
    return keras.Model([x], keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", **settings)(x))


def trained(
    name: str,
    make,
    optimizer,
    inputs: dict,
    labels: np.ndarray,
    *,
    steps: int = 1,
    micro_batches: int = 1,
    ema: float = 0.0,
) -> keras.Model:
    """The model after steps on one global batch, which the strategy's replicas share; with its averages."""
    strategy = strategy_lib.create(name)
    count = strategy.num_replicas_in_sync
    assert count == 1 + (name == "mirrored")
    with strategy.scope():
        model = make()
        adapt_to_replicas(model, replicas=count)
        model.optimizer = optimizer()
        model.optimizer.build(model.trainable_variables)
        model.averages = step_lib.build_averages(ema, model)
    step = train_step(
        model,
        model.optimizer,
        task=Regression(),
        global_batch=len(labels),
        micro_batches=micro_batches,
        averages=model.averages,
    )

    def part(values: np.ndarray):
        parts = np.split(values, count)
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    run = tf.function(lambda *args: strategy.run(step, args=args), autograph=False)
    shared = {name: part(values) for name, values in inputs.items()}, part(labels)
    for _ in range(steps):
        run(*shared)
    return model


def adam(gradient, value: np.ndarray, steps: int, rate: float = 0.1) -> np.ndarray:
    """Kingma & Ba 2015, algorithm 1, in float64; `gradient` is a function of the value."""
    value, m, v = value.astype("float64"), 0.0, 0.0
    for t in range(1, steps + 1):
        g = gradient(value)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        value = value - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
    return value


def gradient_of_table(value: np.ndarray) -> np.ndarray:
    g = np.zeros_like(value)
    np.add.at(g, IDS[:, 0], 2 * (value[IDS[:, 0]] - LABELS[:, None]) / len(LABELS))
    return g


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_of_equal_ids_are_one_gradient(name):
    model = trained(name, table, lambda: keras.optimizers.Adam(0.1), {"ids": IDS}, LABELS, steps=20)
    found = np.asarray(model.weights[0])
    np.testing.assert_allclose(found, adam(gradient_of_table, START, 20), rtol=1e-4, atol=1e-5)


COLUMNS = np.random.default_rng(5).integers(0, 40, size=(64, 6)) % np.array([2, 3, 5, 9, 20, 40])


def categories_model(ids: keras.KerasTensor, tables: Sequence[keras.Layer]) -> keras.Model:
    """wide_deep in small: embeddings of six columns go through a perceptron, and to the output too."""
    start = keras.initializers.GlorotUniform(seed=3)
    deep, wide = (keras.layers.Flatten()(table(ids)) for table in tables)
    hidden = keras.layers.Dense(16, "tanh", kernel_initializer=start)(deep)
    logits = [keras.layers.Dense(1, kernel_initializer=start)(each) for each in (hidden, wide)]
    return keras.Model([ids], keras.layers.Add()(logits))


@keras.saving.register_keras_serializable("tests")
class OneHotTable(OffsetEmbedding):
    """The same table, read by a product with one-hot rows: so its gradient is dense."""

    def call(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        return keras.ops.one_hot(ids + self._offsets, self.table.shape[0]) @ self.table


@pytest.mark.parametrize("name", [pytest.param("one_device", marks=pytest.mark.slow), "mirrored"])
def test_sparse_gradients_train_as_dense_ones_do(name):
    """100 steps of Adam over 64 examples; of the smallest column, each id comes about 32 times."""
    labels = (np.sin(COLUMNS @ np.arange(1.0, 7.0)) > 0).astype("float32")

    def weights(kind: type[OffsetEmbedding]) -> list[np.ndarray]:
        def make() -> keras.Model:
            start = keras.initializers.RandomNormal(seed=4)
            tables = [kind((2, 3, 5, 9, 20, 40), size, initializer=start) for size in (4, 1)]
            return categories_model(keras.Input((6,), dtype="int32", name="ids"), tables)

        inputs = {"ids": COLUMNS.astype("int32")}
        model = trained(name, make, lambda: keras.optimizers.Adam(1e-3), inputs, labels, steps=100)
        return [np.asarray(each) for each in model.trainable_variables]

    for sparse, dense in zip(weights(OffsetEmbedding), weights(OneHotTable), strict=True):
        np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_loss_that_no_weight_touches_is_told(name):
    def make() -> keras.Model:
        x = keras.Input((1,), name="x")
        return keras.Model([x], keras.ops.round(keras.layers.Dense(1, name="rounded")(x)))

    with pytest.raises(
        InputError, match=r"none of its 2 weights touches: rounded/kernel, rounded/bias; .*round"
    ):
        trained(name, make, lambda: keras.optimizers.SGD(1.0), {"x": np.ones((8, 1), "float32")}, LABELS)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_whole_gradient_is_clipped(name):
    x, labels = np.ones((8, 1), "float32"), np.array([101.0] * 4 + [11.0] * 4, "float32")
    model = trained(name, line, lambda: keras.optimizers.SGD(1.0, global_clipnorm=0.5), {"x": x}, labels)
    # The gradient is -2 * mean(labels - 1) = -110, so one step of the clipped one is 0.5.
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[1.5]], rtol=1e-6)


@pytest.mark.parametrize(("name", "parts"), [("one_device", 2), ("mirrored", 1), ("mirrored", 2)])
def test_losses_of_what_layers_output_are_the_mean_over_all_parts(name, parts):
    """Keras adds, for each call, the mean over the examples of that call."""

    def make() -> keras.Model:
        x = keras.Input((1,), name="x")
        start = {"use_bias": False, "kernel_initializer": "ones"}
        kept = keras.layers.Dense(1, **start, activity_regularizer=keras.regularizers.L2(0.5))(x)
        silent = keras.layers.Rescaling(0.0)(kept)
        return keras.Model([x], silent)

    x, labels = np.array([[1], [1], [2], [2], [0], [0], [1], [1]], "float32"), np.zeros(8, "float32")
    model = trained(name, make, lambda: keras.optimizers.SGD(0.1), {"x": x}, labels, micro_batches=parts)
    # The gradient is that of 0.5 * mean((w x)²), which is mean(x²) = 1.5.
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[0.85]], rtol=1e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_models_own_losses_count_once(name):
    def make() -> keras.Model:
        return line(kernel_regularizer=keras.regularizers.L2(0.25))

    x, labels = np.zeros((8, 1), "float32"), np.zeros(8, "float32")
    model = trained(name, make, lambda: keras.optimizers.SGD(1.0), {"x": x}, labels)
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[0.5]], rtol=1e-6)  # 1 - 2 * 0.25 * 1


def test_the_models_own_losses_may_be_of_fewer_bits():
    def make() -> keras.Model:
        x = keras.Input((1,), name="x")
        start = {"use_bias": False, "kernel_initializer": "ones"}
        kept = keras.layers.Dense(1, dtype="mixed_bfloat16", activity_regularizer="l2", **start)(x)
        return keras.Model([x], keras.layers.Rescaling(0.0, dtype="float32")(kept))

    x, labels = np.full((8, 1), 2.0, "float32"), np.zeros(8, "float32")
    model = trained("one_device", make, lambda: keras.optimizers.SGD(1.0), {"x": x}, labels)
    # The gradient is that of 0.01 * mean((w x)²): 0.08; bfloat16 keeps 8 bits of it.
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[0.92]], rtol=2e-3)


@pytest.mark.parametrize(
    ("name", "example"),
    [("one_device", 7), ("mirrored", 0), ("mirrored", 7)],  # of the first replica, and of the last
)
def test_an_infinite_gradient_of_any_replica_skips_the_step(name, example):
    x = np.ones((8, 1), "float32")
    x[example] = np.inf

    def make() -> keras.optimizers.Optimizer:
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=8.0)

    model = trained(name, line, make, {"x": x}, np.ones(8, "float32"))
    assert np.asarray(model.weights[0]).item() == 1.0
    assert np.asarray(model.optimizer.dynamic_scale).item() == 4.0


@pytest.mark.parametrize("name", STRATEGIES)
def test_scaling_the_loss_changes_nothing_else(name):
    def make() -> keras.optimizers.Optimizer:
        inner = keras.optimizers.SGD(1.0, global_clipnorm=0.5)
        return keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0)

    x, labels = np.ones((8, 1), "float32"), np.array([101.0] * 4 + [11.0] * 4, "float32")
    model = trained(name, line, make, {"x": x}, labels)
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[1.5]], rtol=1e-6)


def test_a_dense_gradient_stays():
    gradient = tf.ones([2, 2])
    assert step_lib.dense(gradient, keras.Variable(tf.zeros([2, 2]))) is gradient


@pytest.mark.parametrize(
    ("row", "dtype"), [((1,), "int32"), ((8,), "int64"), ((16,), "int32"), ((3, 8), "int64")]
)
def test_rows_of_equal_ids_are_added(row, dtype):
    draw = np.random.default_rng(4)
    ids, rows = draw.integers(0, 7, 300).astype(dtype), draw.normal(size=(300, *row)).astype("float32")
    expected = np.zeros((9, *row))
    np.add.at(expected, ids, rows.astype("float64"))

    table = keras.Variable(tf.zeros([9, *row]))
    found = step_lib.dense(tf.IndexedSlices(tf.constant(rows), tf.constant(ids)), table)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


X = np.random.default_rng(2).normal(size=(8, 3)).astype("float32")
WAYS = [("one_device", 4), ("mirrored", 1), ("mirrored", 2)]


def perceptron() -> keras.Model:
    """Two layers, a table and a regularizer."""
    x, ids = keras.Input((3,), name="x"), keras.Input((1,), dtype="int32", name="ids")
    entry = keras.layers.Flatten()(keras.layers.Embedding(5, 2, embeddings_initializer="ones")(ids))
    both = keras.layers.Concatenate()([x, entry])
    start = keras.initializers.GlorotUniform(seed=3)
    hidden = keras.layers.Dense(4, "tanh", kernel_initializer=start, kernel_regularizer="l2")(both)
    return keras.Model([x, ids], keras.layers.Dense(1, kernel_initializer=start)(hidden))


def clipped_adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.01, global_clipnorm=0.3)


def scaled_adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.LossScaleOptimizer(clipped_adam(), initial_scale=64.0, dynamic_growth_steps=2)


@pytest.mark.parametrize("make", [pytest.param(clipped_adam, marks=pytest.mark.slow), scaled_adam])
def test_replicas_and_parts_of_a_batch_change_nothing(make):
    def weights(name: str, parts: int) -> list[np.ndarray]:
        inputs = {"x": X, "ids": IDS}
        model = trained(name, perceptron, make, inputs, LABELS, steps=10, micro_batches=parts, ema=0.9)
        return [np.asarray(each) for each in [*model.weights, *model.averages.variables]]

    whole, *others = [weights(*way) for way in WAYS]
    for other in others:
        for was, is_ in zip(whole, other, strict=True):
            np.testing.assert_allclose(is_, was, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_averages_of_weights(name, parts):
    labels = np.full(8, 5.0, "float32")  # of x = 1: the weight goes from 1 to 5
    x = np.ones((8, 1), "float32")
    model = trained(
        name,
        line,
        lambda: keras.optimizers.SGD(0.1),
        {"x": x},
        labels,
        steps=30,
        micro_batches=parts,
        ema=0.8,
    )
    weight, average = 1.0, 1.0
    for step in range(1, 31):
        weight -= 0.1 * 2 * (weight - 5.0)
        decay = min(0.8, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * weight
    np.testing.assert_allclose(np.asarray(model.weights[0]), [[weight]], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(model.averages.variables[0]), [[average]], rtol=1e-5)


@pytest.mark.parametrize(("name", "parts"), WAYS)
def test_a_skipped_step_changes_neither_weights_nor_moments_nor_averages(name, parts):
    x = np.ones((8, 1), "float32")
    x[7] = np.inf

    def make() -> keras.optimizers.Optimizer:
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1.0), initial_scale=8.0)

    labels = np.ones(8, "float32")
    model = trained(name, line, make, {"x": x}, labels, micro_batches=parts, ema=0.5)
    adam = model.optimizer.inner_optimizer
    assert np.asarray(model.averages.variables[0]).item() == np.asarray(model.weights[0]).item() == 1.0
    assert [np.asarray(each).sum() for each in adam.variables if "learning" not in each.path] == [0, 0, 0]


def test_a_batch_is_parted_though_its_size_is_unknown_when_the_step_is_traced():
    """As under several workers."""
    x, labels = np.arange(4, dtype="float32")[:, None], np.float32([1, 0, 2, 5])
    model, make = line(), lambda: keras.optimizers.SGD(0.1)
    step = train_step(model, make(), task=Regression(), global_batch=4, micro_batches=2)
    unknown = {"x": tf.TensorSpec([None, 1])}, tf.TensorSpec([None])
    tf.function(step, input_signature=unknown)({"x": tf.constant(x)}, tf.constant(labels))
    known = trained("one_device", line, make, {"x": x}, labels, micro_batches=2)
    np.testing.assert_array_equal(model.get_weights(), known.get_weights())


def test_micro_batches_have_masks_of_their_own():
    def make() -> keras.Model:
        x = keras.Input((64,), name="x")
        dropped = keras.layers.Dropout(0.5, seed=1)(x)
        return keras.Model([x], keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(dropped))

    x, labels = np.ones((2, 64), "float32"), np.full(2, 0.25, "float32")
    model = trained("one_device", make, lambda: keras.optimizers.SGD(1.0), {"x": x}, labels, micro_batches=2)
    # Each example adds 0.5 where its own mask lets a unit through: twice, once or never.
    assert set(np.asarray(model.weights[0])[:, 0].tolist()) == {0.0, 0.5, 1.0}


# Averages take the place of the weights, and give it back.


def weighted_line(weight: float) -> keras.Model:
    x = keras.Input((1,))
    start = keras.initializers.Constant(weight)
    return keras.Model([x], keras.layers.Dense(1, use_bias=False, kernel_initializer=start)(x))


def value(variable: keras.Variable) -> float:
    return np.asarray(variable).item()


def test_they_are_in_place_for_a_while():
    model = weighted_line(1.0)
    found = step_lib.build_averages(0.9, model)
    model.weights[0].assign([[3.0]])
    with found.in_place():
        assert value(model.weights[0]) == 1.0
    assert (value(model.weights[0]), value(found.variables[0])) == (3.0, 1.0)


def test_what_a_callback_puts_in_their_place_they_become():
    model = weighted_line(1.0)
    found = step_lib.build_averages(0.9, model)
    with found.in_place():
        model.weights[0].assign([[7.0]])
    assert (value(model.weights[0]), value(found.variables[0])) == (1.0, 7.0)


def test_after_an_error_the_weights_are_back():
    model = weighted_line(1.0)
    found = step_lib.build_averages(0.9, model)
    model.weights[0].assign([[3.0]])
    with pytest.raises(ZeroDivisionError), found.in_place():
        1 / 0  # noqa: B018
    assert value(model.weights[0]) == 3.0


def test_statistics_of_batches_are_no_weights():
    x = keras.Input((2,))
    model = keras.Model([x], keras.layers.BatchNormalization()(x))
    assert len(step_lib.build_averages(0.9, model).variables) == 2  # gamma and beta


def test_a_decay_of_0_keeps_none():
    assert step_lib.build_averages(0.0, weighted_line(1.0)) is None


def partly_frozen() -> keras.Model:
    """A head on a layer and a normalization that are frozen, with statistics of no batch here."""
    x = keras.Input((3,), name="x")
    hidden = keras.layers.Dense(
        4, "tanh", kernel_initializer=keras.initializers.GlorotUniform(1), name="stem"
    )(x)
    normalised = keras.layers.BatchNormalization(moving_mean_initializer=keras.initializers.Constant(0.3))(
        hidden
    )
    model = keras.Model([x], keras.layers.Dense(1, kernel_initializer="zeros", name="head")(normalised))
    freeze(model, ("stem/*", "batch_normalization*"))
    return model


def rated_sgd(model: keras.Model) -> keras.optimizers.Optimizer:
    config = base.get_config()
    config.optimizer.update(
        name="sgd", learning_rate=0.01, schedule="constant", warmup_part=0.0, momentum=0.0
    )
    config.optimizer.update(weight_decay=0.1, rates=(("head/kernel", 10.0),))
    args = parsed(config).optimizer
    return optimizer_lib.build(args, model.trainable_variables, total_steps=5, precision=FLOAT32)


@pytest.mark.parametrize(
    ("name", "micro_batches"),
    [
        pytest.param("one_device", 1, marks=pytest.mark.slow),
        pytest.param("one_device", 4, marks=pytest.mark.slow),
        ("mirrored", 2),
    ],
)
def test_only_the_head_learns_each_weight_at_its_own_rate(name, micro_batches):
    draw, made = np.random.default_rng(7), []
    x, labels = draw.normal(size=(16, 3)).astype("float32"), draw.normal(size=16).astype("float32")

    def make() -> keras.Model:
        made.append(partly_frozen())
        return made[-1]

    model = trained(
        name,
        make,
        lambda: rated_sgd(made[-1]),
        {"x": x},
        labels,
        steps=5,
        micro_batches=micro_batches,
        ema=0.5,
    )
    fresh = partly_frozen()
    for before, after in zip(fresh.weights[:-2], model.weights[:-2], strict=True):
        assert np.array_equal(np.asarray(before), np.asarray(after)), after.path
    features = np.asarray(keras.Model(fresh.inputs, fresh.layers[-2].output)([x]), np.float64)
    kernel, bias = np.zeros(4), 0.0
    for _ in range(5):
        error = features @ kernel + bias - labels
        kernel = kernel - 0.1 * (0.1 * kernel) - 0.1 * 2 * features.T @ error / 16
        bias = bias - 0.01 * 2 * error.mean()
    np.testing.assert_allclose(np.asarray(model.weights[-2])[:, 0], kernel, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.asarray(model.weights[-1]), [bias], rtol=1e-4, atol=1e-6)
    assert [each.path for each in model.averages.variables] == ["head/kernel", "head/bias"]
    assert sum(each.shape == (3, 4) for each in model.optimizer.variables) == 0  # no slot of the stem's


class Chance(keras.Model):
    """Its logits have been through a sigmoid."""

    def __init__(self):
        super().__init__()
        self.last = keras.layers.Dense(1, activation="sigmoid")

    def call(self, x):
        return self.last(x)


def test_what_a_sigmoid_in_a_class_gives_is_no_logit():
    x = keras.Input((1,))
    model = keras.Model(x, Chance()(x))
    model.optimizer = keras.optimizers.SGD(0.1)
    model.optimizer.build(model.trainable_variables)
    step = train_step(model, model.optimizer, task=Binary(), global_batch=2)
    with pytest.raises(InputError, match="its logits: received what a softmax or a sigmoid gives"):
        tf.function(step, autograph=False)(tf.ones([2, 1]), tf.constant([0, 1]))


def test_draws_whose_state_nothing_saves_are_found():
    @tf.function(autograph=False)
    def drawn(steps: tf.Tensor) -> tf.Tensor:
        draw = {"tf": tf.random.normal, "stateless": lambda shape: tf.random.stateless_normal(shape, [1, 2])}

        def body(at: tf.Tensor, total: tf.Tensor) -> tuple:
            with tf.name_scope("noise"):
                return at + 1, total + draw["tf"]([2]) + draw["stateless"]([2])

        return tf.while_loop(lambda at, _: at < steps, body, (tf.constant(0), tf.zeros([2])))[1]

    graph = drawn.get_concrete_function(tf.TensorSpec([], tf.int32)).graph
    [name] = replicas.unsaved_draws(graph)
    assert "noise" in name and name.endswith("RandomStandardNormal")

"""What is computed again gives the bits of what is kept: weights, masks, statistics and losses of layers."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.engine import recomputation
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.engine.rows import update_by_rows
from pipeline.training.engine.step import train_step
from pipeline.training.tasks.classification import Regression

WIDTH, LENGTH, BATCH, STEPS = 8, 6, 8, 3
BLOCKS = ("block_*",)


class Block(keras.layers.Layer):
    """Has all that makes a second call differ from the first: masks, statistics, and losses of its own.

    Gives a pair. Its mask is of its own making.
    """

    def build(self, *shapes: tuple) -> None:
        self.mask = keras.layers.Masking(dtype=self.dtype_policy)
        self.wide = keras.layers.Dense(3 * WIDTH, activation="softplus", dtype=self.dtype_policy)
        self.norm = keras.layers.BatchNormalization(dtype=self.dtype_policy)
        self.drop = keras.layers.Dropout(0.4, dtype=self.dtype_policy)
        self.narrow = keras.layers.Dense(WIDTH, activity_regularizer="l2", dtype=self.dtype_policy)
        self.wide.build((None, LENGTH, WIDTH))
        self.norm.build((None, LENGTH, 3 * WIDTH))
        self.narrow.build((None, LENGTH, 3 * WIDTH))

    def call(self, x, is_there, training=False):
        x = self.mask(x * tf.cast(is_there, x.dtype)[..., None])
        hidden = self.drop(self.norm(self.wide(x), training=training))
        self.add_loss(0.01 * tf.reduce_mean(tf.square(tf.cast(hidden, tf.float32))))
        return x + self.narrow(hidden), {"is_there": is_there}

    def compute_output_spec(self, x, is_there, training=False):
        return keras.KerasTensor(x.shape, self.compute_dtype), {
            "is_there": keras.KerasTensor(x.shape[:2], "bool")
        }


def network(policy: str) -> keras.Model:
    keras.utils.set_random_seed(7)
    ids = keras.Input((LENGTH,), dtype="int32", name="ids")
    x = keras.layers.Embedding(10, WIDTH, dtype=policy)(ids)
    is_there = ids > 2
    shared = Block(name="block_shared", dtype=policy)
    for layer in (Block(name="block_0", dtype=policy), shared, Block(name="other", dtype=policy), shared):
        x, parts = layer(x, is_there)
        is_there = parts["is_there"]
    x = keras.layers.LSTM(4, dtype=policy)(x)
    return keras.Model([ids], keras.layers.Dense(1, dtype="float32")(x))


def trained(patterns, *, strategy: str, policy: str = "float32", parts: int = 1, jit: bool = False) -> dict:
    keras.utils.clear_session()
    strategy = strategy_lib.create(strategy)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        model = network(policy)
        adapt_to_replicas(model, replicas=count)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        model.optimizer = keras.optimizers.LossScaleOptimizer(optimizer) if "16" in policy else optimizer
        model.optimizer.build(model.trainable_variables)
    step = train_step(
        model,
        model.optimizer,
        task=Regression(),
        global_batch=BATCH,
        micro_batches=parts,
        recomputing=recomputation.of(model, patterns),
        jit_compile=jit,
    )
    draw = np.random.default_rng(3)
    ids = draw.integers(0, 10, (BATCH, LENGTH)).astype("int32")
    labels = draw.normal(size=BATCH).astype("float32")

    def part(values: np.ndarray):
        of_replicas = np.split(values, count)
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(of_replicas[context.replica_id_in_sync_group])
        )

    run = tf.function(lambda *args: strategy.run(step, args=args), autograph=False)
    for _ in range(STEPS):
        sums = strategy.reduce("SUM", run({"ids": part(ids)}, part(labels)), axis=None)
    return {"sums": sums.numpy()} | {each.path: np.asarray(each) for each in model.variables}


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("one_device", {}),
        ("one_device", {"policy": "mixed_bfloat16"}),
        ("one_device", {"jit": True}),
        ("mirrored", {"policy": "mixed_float16", "parts": 2}),
    ],
)
def test_a_step_has_the_same_numbers(strategy, settings):
    kept = trained((), strategy=strategy, **settings)
    again = trained(BLOCKS, strategy=strategy, **settings)
    assert kept.keys() == again.keys() and any("moving_mean" in each for each in kept)
    # XLA fuses what is kept and what is not differently, so it rounds differently.
    most = 1e-5 if settings.get("jit") else 0.0
    for name, values in kept.items():
        np.testing.assert_allclose(again[name], values, rtol=most, atol=most, err_msg=name)
    assert np.isfinite(kept["sums"]).all()


def activations(model: keras.Model, recomputing: contextlib.AbstractContextManager) -> int:
    """How often the activation of blocks is computed for a gradient."""

    @tf.function(autograph=False)
    def gradient(ids: tf.Tensor) -> list:
        with tf.GradientTape() as tape, recomputing:
            loss = tf.reduce_sum(model([ids], training=True))
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, model.trainable_variables)]

    graph = gradient.get_concrete_function(tf.TensorSpec((2, LENGTH), tf.int32)).graph
    return sum(each.type == "Softplus" for each in graph.get_operations())


def test_chosen_layers_are_computed_twice_and_only_in_training():
    model = network("float32")
    model.optimizer = keras.optimizers.SGD()
    recomputing = recomputation.of(model, BLOCKS)
    calls, chosen = 4, 3  # one layer is called twice
    assert activations(model, contextlib.nullcontext()) == calls
    assert activations(model, recomputing) == calls + chosen


def test_the_outermost_layers_are_chosen():
    inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="part_of_it")], name="inner")
    model = keras.Sequential([keras.Input((2,)), inner, keras.layers.Dense(2, name="partner")])
    model.build((None, 2))
    names = [each.name for each in recomputation.layers_of(model, ("inner", "part*"))]
    assert sorted(names) == ["inner", "partner"]


def test_a_pattern_of_no_layer_is_named_with_those_that_there_are():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="first")])
    with pytest.raises(
        InputError, match=r"config.train.remat: received 'frist'.*expected patterns of.*first"
    ):
        recomputation.of(model, ("frist",))


class Borrows(keras.layers.Layer):
    """Multiplies by weights of another layer."""

    def __init__(self, lender: keras.layers.Dense, **kwargs) -> None:
        super().__init__(**kwargs)
        self._lenders = itertools.repeat(lender)  # Keras does not look for layers in here

    def call(self, x):
        return tf.matmul(x, next(self._lenders).kernel, transpose_b=True)


def test_weights_of_other_layers_are_refused():
    inputs = keras.Input((2,), name="x")
    lender = keras.layers.Dense(2, name="lender")
    model = keras.Model([inputs], Borrows(lender, name="borrower")(lender(inputs)))
    model.optimizer = keras.optimizers.SGD()
    step = train_step(
        model,
        model.optimizer,
        task=Regression(),
        global_batch=2,
        recomputing=recomputation.of(model, ("borrower",)),
    )
    with pytest.raises(
        Exception, match=r"'borrower', which uses weights that are not its own: lender/kernel"
    ):
        step({"x": tf.zeros([2, 2])}, tf.zeros([2]))


def test_a_table_that_is_updated_by_rows_is_refused():
    ids = keras.Input((1,), dtype="int32")
    model = keras.Model(ids, keras.layers.Flatten()(keras.layers.Embedding(4, 2, name="table")(ids)))
    model.optimizer = keras.optimizers.Adagrad()
    update_by_rows(model.optimizer, model.trainable_variables)
    with pytest.raises(InputError, match="the layer 'table' with the table table/embeddings"):
        recomputation.of(model, ("table",))

"""Every registered model: what the training loop, its checkpoints and the export take for granted.

A new model needs an entry in SMALL: arguments that build it small, inputs of five examples for it, and the
number of parameters that it should have.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.registry import MODELS
from pipeline.training.engine.replicas import adapt_to_replicas

OUTPUTS = 3
EXAMPLES = 5
DRAW = np.random.default_rng(0)
POLICIES = ("float32", "mixed_bfloat16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Small:
    """Keyword arguments of a model's function but `outputs`, and inputs, each [EXAMPLES, …].

    `parameters`: numbers that are trained, layer by layer, by hand. `places`: sizes of the logits between the
    examples and the outputs. `is_dear`: so many layers that the quick tests leave it out.
    """

    arguments: Mapping[str, object]
    inputs: Mapping[str, np.ndarray]
    parameters: int
    is_dear: bool = False
    places: tuple[int, ...] = ()


IMAGE = {"image_shape": (8, 8, 1), "image_rescaling": (1 / 127.5, -1.0)}
IMAGES = {"image": DRAW.integers(0, 256, (EXAMPLES, 8, 8, 1)).astype("uint8")}


def plain(inputs: int, width: int) -> int:
    """Parameters of a block of two 3x3 convolutions with two numbers a channel of each normalization."""
    shortcut = inputs * width + 2 * width if inputs != width else 0
    return 9 * inputs * width + 2 * width + 9 * width**2 + 2 * width + shortcut


def bottlenecks(inputs: int, width: int, count: int) -> int:
    """The same of a stage of bottlenecks, 1x1, 3x3 and 1x1 to four times the width."""
    inner, wide = 2 * width + 9 * width**2 + 2 * width, width * 4 * width + 2 * 4 * width
    first = inputs * width + inner + wide + inputs * 4 * width + 2 * 4 * width
    return first + (count - 1) * (4 * width * width + inner + wide)


SMALL = {
    "bag_of_ngrams": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "sequences": {"words": (4, 10)},
            "parts": {"words": (3, 1)},
            "dropout": 0.0,  # whose random numbers are each replica's own
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
            "words": DRAW.integers(0, 10, (EXAMPLES, 4)).astype("int32"),
        },
        # numbers; categories; words: weights and factors; bias
        parameters=2 * 3 + 7 * 3 + 10 * (3 + 1) + 3,
    ),
    "dcn": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "embedding": 2,
            "crosses": 2,
            "rank": 3,
            "hidden": (8,),
            "dropout": 0.0,
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
        },
        # table; two crosses: down to the rank, up again, bias; hidden; logits of both parts
        parameters=7 * 2 + 2 * (6 * 3 + 3 * 6 + 6) + (6 * 8 + 8) + (14 * 3 + 3),
    ),
    "resnet": Small(
        arguments={**IMAGE, "widths": (4, 6), "blocks_per_stage": 1},
        inputs=IMAGES,
        # stem; one block a stage: norm, 3x3, norm, 3x3, and 1x1 where the width changes; norm; logits
        parameters=9 * 4
        + (2 * 4 + 9 * 4 * 4 + 2 * 4 + 9 * 4 * 4)
        + (2 * 4 + 4 * 6 + 9 * 4 * 6 + 2 * 6 + 9 * 6 * 6)
        + 2 * 6
        + (6 * 3 + 3),
    ),
    "resnet18": Small(
        arguments={**IMAGE, "width": 2},
        inputs=IMAGES,
        parameters=(9 * 2 + 2 * 2)
        + sum(plain(*each) for each in ((2, 2), (2, 4), (4, 8), (8, 16)))
        + sum(plain(each, each) for each in (2, 4, 8, 16))
        + (16 * 3 + 3),
        is_dear=True,
    ),
    "resnet50": Small(
        arguments={**IMAGE, "width": 2},
        inputs=IMAGES,
        parameters=(9 * 2 + 2 * 2)
        + sum(bottlenecks(*each) for each in ((2, 2, 3), (8, 4, 4), (16, 8, 6), (32, 16, 3)))
        + (64 * 3 + 3),
        is_dear=True,
    ),
    "sequence_recommender": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "sequences": {"bought": (3, OUTPUTS + 2)},
            "of_items": ("bought",),
            "size": 8,
            "depth": 2,
            "dropout": 0.0,
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
            "bought": np.array([[2, 3, 0], [4, 1, 2], [0, 0, 0], [3, 3, 4], [4, 0, 0]], "int32"),
        },
        # items; query; two blocks, as the transformer's; norm; categories; linear, of 8 + 2 + 2 × 16
        parameters=(3 * 8 + 3)
        + 8
        + 2 * (8 + 3 * 8 * 8 + 2 * 4 + 8 * 8 + 8 + 2 * (8 * 32))
        + 8
        + 7 * 16
        + (42 * 8 + 8),
    ),
    "tabular": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "sequences": {"words": (4, 10)},
            "boundaries": ((-1.0, 0.0, 0.5), (-2.0, 2.0)),
            "bins": 4,
            "embedding": 2,
            "members": 3,
            "hidden": (8,),
            "dropout": 0.0,  # as below
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
            "words": DRAW.integers(0, 10, (EXAMPLES, 4)).astype("int32"),
        },
        # words; categories; numbers: line, bias and pieces; linear: ids and numbers; signs; hidden; deep
        parameters=10 * 2
        + 7 * 2
        + (2 * 2 + 2 * 2 + 2 * 4 * 2)
        + (7 * 3 + 2 * 3)
        + 3 * 10
        + (10 * 8 + 8)
        + 3 * (8 * 3 + 3),
    ),
    "transformer": Small(
        arguments={
            "sequences": {"tokens": (6, OUTPUTS + 1), "segments": (6, 8)},
            "width": 8,
            "depth": 2,
            "heads": 2,
            "key_value_heads": 1,
            "expansion": 2,
        },
        inputs={
            "tokens": DRAW.integers(0, OUTPUTS + 1, (EXAMPLES, 6)).astype("int32"),
            "segments": np.tile(np.array([2, 2, 2, 3, 3, 1], "int32"), (EXAMPLES, 1)),
        },
        # table; two blocks: norm, queries, keys and values, their norms, output, norm, up and down; norm
        parameters=4 * 8 + 2 * (8 + 8 * 8 + 2 * (8 * 4) + 2 * 4 + 8 * 8 + 8 + 2 * (8 * 16)) + 8,
        places=(6,),
    ),
    "vit": Small(
        arguments={**IMAGE, "patch": 4, "width": 8, "depth": 2, "heads": 2, "expansion": 2},
        inputs=IMAGES,
        # patches; two blocks: norm, queries, keys, values and output, norm, up and down; norm; logits
        parameters=(4 * 4 * 8 + 8)
        + 2 * (2 * 8 + 4 * (8 * 8 + 8) + 2 * 8 + (8 * 16 + 16) + (16 * 8 + 8))
        + 2 * 8
        + (8 * 3 + 3),
    ),
    "two_tower": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "sequences": {"bought": (3, OUTPUTS + 2)},
            "of_items": ("bought",),
            "size": 4,
            "hidden": (8,),
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
            "bought": np.array([[2, 3, 0], [4, 1, 2], [0, 0, 0], [3, 3, 4], [4, 0, 0]], "int32"),
        },
        # items; categories; hidden, of 2 + 2 × 32 + 4; linear; deep
        parameters=(3 * 4 + 3) + 7 * 32 + (70 * 8 + 8) + (70 * 4 + 4) + 8 * 4,
    ),
    "wide_deep": Small(
        arguments={
            "numeric": 2,
            "cardinalities": (3, 4),
            "sequences": {"words": (4, 10)},
            "embedding": 2,
            "hidden": (8,),
            "dropout": 0.0,  # whose random numbers are each replica's own
        },
        inputs={
            "numeric": DRAW.normal(size=(EXAMPLES, 2)).astype("float32"),
            "categories": DRAW.integers(0, 3, (EXAMPLES, 2)).astype("int32"),
            "words": DRAW.integers(0, 10, (EXAMPLES, 4)).astype("int32"),
        },
        # wide: numbers, categories; frequencies; embeddings of categories, of words; hidden; deep
        parameters=2 * 3
        + 7 * 3
        + 2 * 8
        + 7 * 2
        + 10 * 2
        + ((2 * (1 + 2 * 8) + 2 * 2 + 2) * 8 + 8)
        + (8 * 3 + 3),
    ),
}


LONG_TO_TRACE = ("sequence_recommender", "transformer", "vit")


def models(*, dear: Collection[str] = ()) -> list:
    """Names of all models, of which the dear ones are marked slow: always those of SMALL."""
    dear = {*dear, *(name for name in SMALL if SMALL[name].is_dear)}
    return [pytest.param(name, marks=pytest.mark.slow) if name in dear else name for name in MODELS]


@pytest.fixture(params=models())
def name(request: pytest.FixtureRequest) -> str:
    assert request.param in SMALL, f"model '{request.param}' has no entry in SMALL of this test"
    return request.param


@pytest.fixture(params=POLICIES)
def policy(request: pytest.FixtureRequest):
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


def untrained(name: str) -> keras.Model:
    keras.utils.set_random_seed(0)
    return MODELS[name](outputs=OUTPUTS, **SMALL[name].arguments)


def build(name: str, *, seed: int = 0) -> keras.Model:
    """A model that has learned something, so that each weight counts: some begin at 0."""
    model, draw = untrained(name), np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1 * draw.normal(size=variable.shape))
    for variable in model.non_trainable_variables:
        if variable.path.endswith(("moving_mean", "moving_variance")):
            variable.assign(variable + draw.uniform(0.0, 0.2, variable.shape))
    return model


def inputs(name: str, examples: int = EXAMPLES) -> dict[str, tf.Tensor]:
    return {key: tf.constant(values[:examples]) for key, values in SMALL[name].inputs.items()}


def in_graph(model: keras.Model) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(lambda batch: model(batch, training=False))


def test_logits_are_float32_whatever_the_precision_and_the_batch(name, policy):
    model = build(name)
    assert model.output.dtype == "float32"
    for examples in (1, 3, 4):
        logits = model(inputs(name, examples))
        assert (logits.dtype, logits.shape) == ("float32", (examples, *SMALL[name].places, OUTPUTS))
        assert np.all(np.isfinite(logits))


def test_an_example_does_not_depend_on_its_batch(name):
    model = build(name)
    np.testing.assert_allclose(model(inputs(name))[:1], model(inputs(name, 1)), atol=1e-5)


def test_as_many_parameters_as_by_hand(name):
    model = untrained(name)
    assert sum(math.prod(each.shape) for each in model.trainable_variables) == SMALL[name].parameters


def test_a_model_that_has_learned_nothing_guesses(name):
    logits = np.asarray(untrained(name)(inputs(name), training=False)).reshape(-1, OUTPUTS)
    labels = np.arange(len(logits)) % OUTPUTS
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -np.log(chances[np.arange(len(logits)), labels]).mean()
    assert loss == pytest.approx(math.log(OUTPUTS), abs=0.5)


def test_the_gradient_reaches_every_trainable_variable(name):
    model = build(name)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs(name), training=True) ** 2)
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        assert gradient is not None, variable.path
        assert np.any(tf.convert_to_tensor(gradient)), variable.path


@pytest.mark.slow  # XLA takes ten times as long to compile a model as TensorFlow takes to trace it
def test_xla_computes_the_same_logits(name):
    model = build(name)
    compiled, usual = (
        tf.function(lambda: model(inputs(name), training=True), jit_compile=on) for on in (True, False)
    )
    expected = usual()
    np.testing.assert_allclose(compiled(), expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_a_checkpoint_restores_the_same_outputs(name, policy, tmp_path):
    model, other = build(name), build(name, seed=1)
    tf.train.Checkpoint(model=model).write(str(tmp_path / "saved"))
    tf.train.Checkpoint(model=other).read(str(tmp_path / "saved")).assert_consumed()
    np.testing.assert_array_equal(other(inputs(name)), model(inputs(name)))


def test_a_keras_file_loads_the_same_outputs(name, tmp_path):
    model = build(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs(name)), model(inputs(name)))


@pytest.mark.parametrize("name", models(dear=LONG_TO_TRACE), indirect=True)
@pytest.mark.parametrize(
    "policy", [pytest.param("float32", marks=pytest.mark.slow), "mixed_bfloat16"], indirect=True
)
def test_an_export_serves_the_same_outputs(name, policy, tmp_path):
    model = build(name)
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = {key: tf.TensorSpec([None, *x.shape[1:]], x.dtype, name=key) for key, x in inputs(name).items()}
    # Of batches of one known size TensorFlow fuses other sums, which differ in their last bits.
    same = tf.function(lambda batch: model(batch, training=False), [spec])
    archive.add_endpoint("serve", same)
    archive.write_out(str(tmp_path / "export"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "export"))
    np.testing.assert_array_equal(served.serve(inputs(name)), same(inputs(name)))
    np.testing.assert_allclose(
        served.serve(inputs(name)), in_graph(model)(inputs(name)), rtol=1e-5, atol=1e-6
    )


def trained(name: str, strategy: tf.distribute.Strategy) -> list[np.ndarray]:
    """Weights after one step of gradient descent over four examples."""
    with strategy.scope():
        model, optimizer = build(name), keras.optimizers.SGD(0.01)
        adapt_to_replicas(model, replicas=strategy.num_replicas_in_sync)
        optimizer.build(model.trainable_variables)
    dataset = tf.data.Dataset.from_tensors(inputs(name, 4)).rebatch(4)
    batches = strategy.experimental_distribute_dataset(dataset)

    def step(batch: Mapping[str, tf.Tensor]) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch, training=True) ** 2) / 4
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    tf.function(lambda batch: strategy.run(step, args=(batch,)))(next(iter(batches)))
    return [np.asarray(variable) for variable in model.trainable_variables]


@pytest.mark.parametrize("name", models(dear=LONG_TO_TRACE), indirect=True)
def test_replicas_take_the_step_that_one_device_takes(name):
    mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    for alone, together in zip(
        trained(name, tf.distribute.get_strategy()), trained(name, mirrored), strict=True
    ):
        np.testing.assert_allclose(together, alone, atol=1e-5)


def operations(function: Callable, batch: Mapping[str, tf.Tensor]) -> list[str]:
    return [operation.type for operation in function.get_concrete_function(batch).graph.get_operations()]


@pytest.mark.slow
def test_tracing_again_changes_nothing(name):
    model = build(name)
    before = [variable.path for variable in model.variables]
    first = operations(in_graph(model), inputs(name))
    operations(in_graph(model), inputs(name, 2))
    assert operations(in_graph(model), inputs(name)) == first
    assert [variable.path for variable in model.variables] == before

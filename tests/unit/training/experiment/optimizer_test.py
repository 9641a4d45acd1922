"""Optimizers and learning rates from a config."""

import sys
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.transformer import transformer
from models.wide_deep import wide_deep
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import optimizer
from pipeline.training.experiment import optimizer as optimizer_lib
from pipeline.training.experiment.config import Optimizer
from pipeline.training.experiment.model import matching
from tests.shared import two_cpus  # noqa: F401 - before TensorFlow's devices are used
from tests.shared.parsed import parsed

FLOAT32 = Precision(policy="float32", reason="")
CONSTANT = {"schedule": "constant", "learning_rate": 0.5, "warmup_steps": 0, "warmup_part": 0.0}


def build(
    precision: Precision = FLOAT32, total_steps: int = 100, variables: tuple = (), **settings
) -> keras.optimizers.Optimizer:
    variables = list(variables) or [keras.Variable(np.zeros(1, "float32"))]
    asked = settings_of(**settings)
    return optimizer.build(asked, variables, total_steps=total_steps, precision=precision)


def settings_of(**settings: object) -> Optimizer:
    config = base.get_config()
    config.optimizer.update(settings)
    return parsed(config).optimizer


def rates(made: keras.optimizers.Optimizer, *steps: int) -> list[float]:
    return [round(float(made._learning_rate(step)), 6) for step in steps]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("adamw", keras.optimizers.AdamW), ("adam", keras.optimizers.Adam), ("sgd", keras.optimizers.SGD)],
)
def test_names(name, kind):
    assert isinstance(build(name=name), kind)


def test_adagrad_is_that_of_keras():
    names, after = [], []
    for make in (
        lambda given: build(name="adagrad", **CONSTANT, variables=(given,)),
        lambda given: keras.optimizers.Adagrad(0.5, weight_decay=1e-4),
    ):
        weight = keras.Variable(np.arange(6, dtype="float32").reshape(3, 2), name="kernel")
        made = make(weight)
        for _ in range(2):
            made.apply([keras.ops.ones((3, 2))], [weight])
        names.append([each.name for each in made._accumulators])
        after.append([np.asarray(each) for each in (weight, *made._accumulators)])
    assert names == [["kernel_accumulator"]] * 2
    for ours, theirs in zip(*after, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_cosine_warms_up_and_ends_at_zero():
    made = build(schedule="cosine", learning_rate=1.0, warmup_steps=10, total_steps=110)
    assert rates(made, 0, 4, 9, 10, 60, 110) == [0.1, 0.5, 1.0, 1.0, 0.5, 0.0]


def test_a_warm_up_can_be_a_part_of_the_run():
    made = build(schedule="constant", learning_rate=1.0, warmup_part=0.05, total_steps=200)
    assert rates(made, 0, 4, 9, 10, 199) == [0.1, 0.5, 1.0, 1.0, 1.0]


def test_a_warm_up_in_steps_comes_before_a_part():
    made = build(schedule="constant", learning_rate=1.0, warmup_part=0.5, warmup_steps=10, total_steps=200)
    assert rates(made, 0, 4, 9, 10, 199) == [0.1, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("warmup_steps", "total_steps", "told"),
    [
        (100, 28, "the learning rate rises in 27 of the 28 steps (config.optimizer.warmup_steps=100)"),
        (100, 200, ""),
        (100, 199, "the learning rate rises in 100 of the 199 steps (config.optimizer.warmup_steps=100)"),
        (0, 1, ""),  # a part of the run is what was asked for
    ],
)
def test_a_warm_up_that_is_most_of_the_run_is_told(warmup_steps, total_steps, told):
    assert optimizer.warmup_warning(warmup_steps, total_steps) == told


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        ("constant", lambda step, warmup, total: 1.0),
        ("cosine", lambda step, warmup, total: (1 + np.cos(np.pi * (step - warmup) / (total - warmup))) / 2),
        ("linear", lambda step, warmup, total: (total - step) / (total - warmup)),
        ("rsqrt", lambda step, warmup, total: np.sqrt(warmup / step)),
    ],
)
def test_schedules_are_their_formulas_at_every_step(schedule, formula):
    made = build(schedule=schedule, learning_rate=0.3, warmup_steps=7, total_steps=60)
    found = [float(made._learning_rate(step)) for step in range(60)]
    expected = [(step + 1) / 7 if step < 7 else formula(step, 7, 60) for step in range(60)]
    np.testing.assert_allclose(found, 0.3 * np.array(expected), rtol=1e-5, atol=1e-7)


def test_linear_falls_to_zero():
    made = build(schedule="linear", learning_rate=2.0, warmup_steps=10, total_steps=110)
    assert rates(made, 0, 10, 60, 85, 110) == [0.2, 2.0, 1.0, 0.5, 0.0]


def test_rsqrt_halves_in_four_times_the_warm_up():
    made = build(schedule="rsqrt", learning_rate=1.0, warmup_steps=10, total_steps=1_000)
    assert rates(made, 0, 10, 40, 90) == [0.1, 1.0, 0.5, 0.333333]


def test_constant_stays_after_warming_up():
    made = build(schedule="constant", learning_rate=1.0, warmup_steps=10)
    assert rates(made, 0, 4, 10, 99) == [0.1, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("schedule", ["cosine", "linear", "rsqrt"])
def test_without_warm_up_the_first_step_has_the_whole_rate(schedule):
    assert rates(build(schedule=schedule, learning_rate=1.0, warmup_part=0.0), 0) == [1.0]


def test_constant_without_warm_up_can_be_set_by_a_callback():
    made = build(schedule="constant", learning_rate=0.5, warmup_part=0.0)
    made.learning_rate = 0.25
    assert float(np.asarray(made.learning_rate)) == 0.25


@pytest.mark.parametrize("layer_name", ["dense", "beta_blocker"])  # the name of a layer decides nothing
def test_biases_are_not_decayed(layer_name):
    layer = keras.layers.Dense(
        1, bias_initializer="ones", kernel_initializer="ones", name=layer_name, dtype="float32"
    )
    layer.build((None, 1))
    settings = {"schedule": "constant", "warmup_part": 0.0, "learning_rate": 1.0, "weight_decay": 0.5}
    made = build(name="sgd", variables=layer.trainable_variables, **settings)
    made.apply([np.zeros((1, 1), "float32"), np.zeros(1, "float32")], layer.trainable_variables)
    assert np.asarray(layer.kernel).item() == 0.5
    assert np.asarray(layer.bias).item() == 1.0


def test_embeddings_are_decayed_whatever_their_column_is_called():
    model = wide_deep(numeric=0, cardinalities=(), sequences={"beta_blocker": (3, 5)}, outputs=1)
    made = build(variables=model.trainable_variables, weight_decay=0.5)
    decayed = {each.path for each in model.trainable_variables if made._use_weight_decay(each)}
    assert decayed == {each.path for each in model.trainable_variables if not each.path.endswith("/bias")}
    assert any("beta_blocker_embedding" in path for path in decayed)


def table_and_dense() -> list[keras.Variable]:
    return wide_deep(numeric=0, cardinalities=(3,), sequences={}, outputs=1, hidden=()).trainable_variables


def test_variables_are_spared_by_a_pattern_of_their_names():
    variables = table_and_dense()
    made = build(variables=variables, weight_decay=0.5, not_decayed=("embeddings/*", "*/tabl?"))
    decayed = {each.path for each in variables if made._use_weight_decay(each)}
    assert decayed == {"deep/kernel"}
    before = {each.path: np.asarray(each) for each in variables}
    made.apply([np.zeros(each.shape, "float32") for each in variables], variables)
    changed = {each.path for each in variables if np.any(np.asarray(each) != before[each.path])}
    assert changed == {"deep/kernel"}


def test_a_pattern_that_matches_nothing_lists_the_names():
    message = (
        r"not_decayed: received 'embedding/\*', which matches no .*; expected patterns of deep/bias, deep/k"
    )
    with pytest.raises(InputError, match=message):
        build(variables=table_and_dense(), not_decayed=("embedding/*",))


def orthogonal(matrix: np.ndarray) -> np.ndarray:
    """Jordan 2024: five iterations that bring the singular values near to 1."""
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


def test_muon_updates_the_matrices_that_are_named_and_adamw_the_others():
    dense, logits = keras.layers.Dense(5, name="block"), keras.layers.Dense(2, name="logits")
    for layer, size in ((dense, 3), (logits, 5)):
        layer.build((None, size))
    convolution = keras.layers.Conv1D(2, 3, name="block_of_three_axes")
    convolution.build((None, 4, 3))
    variables = [*dense.weights, *logits.weights, *convolution.weights]
    settings = {"schedule": "constant", "warmup_part": 0.0, "learning_rate": 0.5, "weight_decay": 0.0}
    made = build(name="muon", variables=variables, matrices=("block*/kernel",), **settings)
    draw = np.random.default_rng(0)
    gradients = [draw.normal(size=each.shape).astype("float32") for each in variables]
    before = [np.asarray(each).copy() for each in variables]
    made.apply([tf.constant(each) for each in gradients], variables)
    changes = [np.asarray(each) - was for each, was in zip(variables, before, strict=True)]
    expected = -0.5 * 0.2 * np.sqrt(5) * orthogonal(gradients[0].astype("float64"))
    np.testing.assert_allclose(changes[0], expected, rtol=1e-4, atol=1e-5)
    for change, gradient in zip(changes[1:], gradients[1:], strict=True):
        np.testing.assert_allclose(change, -0.5 * np.sign(gradient), rtol=1e-3)  # Adam's first step


def test_muon_decays_what_it_updates_and_what_adamw_does():
    variables = table_and_dense()
    settings = {"schedule": "constant", "warmup_part": 0.0, "learning_rate": 0.5, "weight_decay": 0.5}
    made = build(name="muon", variables=variables, matrices=("deep/kernel",), **settings)
    before = {each.path: np.asarray(each).copy() for each in variables}
    made.apply([tf.zeros(each.shape) for each in variables], variables)
    for each in variables:
        kept = 1.0 if each.path.endswith("bias") else 0.75
        np.testing.assert_allclose(np.asarray(each), kept * before[each.path], rtol=1e-6)


def test_muon_without_a_matrix_lists_the_names():
    with pytest.raises(
        InputError, match=r"optimizer.matrices: received 'up/\*', which matches no .*deep/kernel"
    ):
        build(name="muon", variables=table_and_dense(), matrices=("up/*",))


def test_muon_by_default_takes_any_kernel_and_stops_no_model_without_one():
    variables = table_and_dense()
    args = settings_of(name="muon", matrices=optimizer.KERNELS)
    assert not optimizer.notes(args, variables)
    bare = [each for each in variables if not each.path.endswith("kernel")]
    build(name="muon", variables=bare, matrices=optimizer.KERNELS)
    assert optimizer.notes(args, bare) == (
        "matrices   none: no variable is called '*kernel', so adamw updates all",
    )
    assert not optimizer.notes(settings_of(name="adamw", matrices=optimizer.KERNELS), bare)


def test_the_default_takes_the_kernels_of_the_blocks_of_the_language_model():
    made = transformer(
        sequences={"tokens": (4, 11)}, outputs=10, width=4, depth=1, heads=1, key_value_heads=1
    )
    paths = [each.path for each in matching(optimizer.KERNELS, made.trainable_variables, key="")]
    assert paths == [f"block_0/{name}/kernel" for name in ("query", "key", "value", "output", "up", "down")]
    assert base.get_config().optimizer.matrices == optimizer.KERNELS


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear", "rsqrt"])
def test_the_first_step_of_a_warm_up_changes_the_weights(schedule):
    weight = keras.Variable(np.ones(1, "float32"))
    made = build(
        name="sgd",
        variables=(weight,),
        schedule=schedule,
        learning_rate=1.0,
        warmup_steps=4,
        momentum=0.0,
        weight_decay=0.0,
    )
    made.apply([np.ones(1, "float32")], [weight])
    np.testing.assert_allclose(np.asarray(weight), [0.75])


def test_float16_scales_the_loss():
    made = build(Precision(policy="mixed_float16", reason=""))
    assert isinstance(made, keras.optimizers.LossScaleOptimizer)


@pytest.mark.parametrize(("field", "value"), [("name", "lion"), ("schedule", "step")])
def test_unknown_names_are_refused(field, value):
    with pytest.raises(InputError, match=rf"--config.optimizer.{field}: received '{value}'; expected one of"):
        build(**{field: value})


# Optimizers and schedules of Keras, and one's own.


class Halving(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule of one's own."""

    def __init__(self, rate: float, every: int) -> None:
        self.rate, self.every = rate, every

    def __call__(self, step: object) -> object:
        return self.rate * 0.5 ** keras.ops.floor(keras.ops.cast(step, "float32") / self.every)


def halving(learning_rate: float, total_steps: int, parts: int = 4) -> Halving:
    return Halving(learning_rate, total_steps // parts)


def heavy_ball(learning_rate: object, weight: float = 0.5) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(learning_rate, momentum=weight)


def no_optimizer(learning_rate: object) -> str:
    return "sgd"


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("Lion", keras.optimizers.Lion, {"weight_decay": 0.3}),
        ("keras.optimizers:Lion(beta_1=0.5)", keras.optimizers.Lion, {"beta_1": 0.5}),
        ("Adagrad", keras.optimizers.Adagrad, {"weight_decay": 0.3}),
        ("RMSprop", keras.optimizers.RMSprop, {"momentum": 0.7}),
        ("Muon", keras.optimizers.Muon, {}),
        (f"{__name__}:heavy_ball(weight=0.25)", keras.optimizers.SGD, {"momentum": 0.25}),
    ],
)
def test_optimizers_that_code_names_get_what_they_take(name, kind, expected):
    weight = keras.Variable(np.ones((2, 2), "float32"), name="kernel")
    made = build(
        name=name,
        learning_rate=0.1,
        schedule="constant",
        warmup_part=0.0,
        weight_decay=0.3,
        momentum=0.7,
        variables=(weight,),
    )
    assert isinstance(made, kind) and float(np.asarray(made.learning_rate)) == pytest.approx(0.1)
    assert {key: getattr(made, key) for key in expected} == expected
    made.apply([np.ones((2, 2), "float32")], [weight])
    assert np.all(np.asarray(weight) != 1.0)


def test_values_that_differ_from_those_of_keras_are_told():
    (line,) = optimizer.announced(settings_of(name="RMSprop", momentum=0.9, weight_decay=0.0))
    assert line == "optimizer  RMSprop with the config's momentum 0.9 (Keras: 0.0)"
    assert not optimizer.announced(settings_of(name="RMSprop", momentum=0.0, weight_decay=0.0))
    assert not optimizer.announced(settings_of(name="RMSprop(momentum=0.5)", weight_decay=0.0))
    assert not optimizer.announced(settings_of(name="sgd"))


def test_keys_of_the_config_are_arguments_of_a_named_optimizer():
    assert build(name="Lion", beta_2=0.5, clip_norm=3.0).beta_2 == 0.5
    with pytest.raises(InputError, match=r"config.optimizer.beta_2: received a key that does not exist"):
        build(name="sgd", beta_2=0.5)


@pytest.mark.parametrize(
    "schedule",
    [f"{__name__}:halving(parts=2)", "ExponentialDecay(decay_rate=0.5, decay_steps=50, staircase=True)"],
)
def test_a_schedule_that_code_names_begins_after_the_warm_up(schedule):
    made = build(schedule=schedule, learning_rate=1.0, warmup_steps=10, total_steps=110)
    assert rates(made, 0, 4, 9, 10, 59, 60, 109) == [0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "Lions"}, r"Did you mean 'Lion'"),
        ({"name": "Lion", "beta": 1.0}, r"beta"),
        ({"name": "adam(beta_1=0.8)"}, r"expected adam without arguments. .* Keras's, such as Adam"),
        ({"schedule": "cosine(alpha=0.1)"}, r"expected cosine without arguments. .* such as CosineDecay"),
        ({"name": "Lion(use_ema=True)"}, r"received the argument use_ema; .*--config.optimizer.ema instead"),
        ({"name": "SGD(gradient_accumulation_steps=2)"}, r"Set --config.train.micro_batches instead"),
        ({"name": f"{__name__}:no_optimizer"}, r"received an object of the class str; .*Optimizer. Have it"),
        ({"name": f"{__name__}:no_optimiser"}, r"Did you mean .*:no_optimizer"),
        ({"schedule": "ExponentialDecay"}, r"decay_rate"),
        (
            {"schedule": f"{__name__}:no_optimizer"},
            r"expected a keras.optimizers.schedules.LearningRateSched",
        ),
        ({"schedule": "nowhere:rate"}, r"schedule=nowhere:rate: received no module nowhere"),
        (
            {"name": f"{__name__}:fails"},
            r"received KeyError: 'lr'; .* Correct .*optimizer_test\.py, line \d+",
        ),
        ({"name": f"{__name__}:ends"}, r"received SystemExit: 0; .* Correct .*optimizer_test\.py, line \d+"),
        ({"name": f"{__name__}:Unbuilt"}, r"Begin its __init__ with super\(\).__init__\(learning_rate\)"),
        ({"name": f"{__name__}:Idle"}, r"received an optimizer without update_step"),
        ({"name": f"{__name__}:uphill"}, r"received an optimizer with a learning rate of -1; expected"),
        (
            {"schedule": f"{__name__}:Falling(per_step=0.5)"},
            r"received -0\.4 at step \d+; .*in .*optimizer_test",
        ),
        ({"schedule": f"{__name__}:Falling(first=0.0)"}, r"received a learning rate of 0 at all steps"),
        ({"schedule": f"{__name__}:Falling(first=1e999)"}, r"received inf at step 0"),
        ({"schedule": f"{__name__}:Falling(first='fast')"}, r"Correct .*optimizer_test\.py, line \d+\."),
    ],
)
def test_code_that_makes_no_optimizer_or_schedule_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        build(**settings)


def fails(learning_rate):
    return {}["lr"]


def ends(learning_rate):
    sys.exit(0)


def uphill(learning_rate):
    return keras.optimizers.SGD(-1.0)


class Unbuilt(keras.optimizers.SGD):
    def __init__(self, learning_rate):
        pass


class Idle(keras.optimizers.Optimizer):
    def __init__(self, learning_rate):
        super().__init__(learning_rate)


class Falling(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, first=0.1, per_step=0.0):
        self.first, self.per_step = first, per_step

    def __call__(self, step):
        return self.first - self.per_step * tf.cast(step, tf.float32)

    def get_config(self):
        return {}


# Adam in one kernel, beside Keras's and beside the formula in NumPy.

START = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
TOLERANCE = 5e-6  # of 50 updates, whose sum is 0.1
GRADIENTS = np.random.default_rng(0).normal(size=(50, 4, 3)).astype(np.float32)


def trained(
    make: Callable[[float], keras.optimizers.Optimizer], *, strategy: str = "one_device", scaled: bool = False
) -> keras.Variable:
    """The variable after 50 steps of given gradients, summed over replicas before, as `Update` does."""
    of_replicas = strategy_lib.create(strategy)
    with of_replicas.scope():
        variable = keras.Variable(START, name="kernel")
        optimizer = make(0.01)
        optimizer._all_reduce_sum_gradients = list
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
        optimizer.build([variable])

    @tf.function
    def step(gradient: tf.Tensor) -> None:
        summed = gradient * (2.0 if scaled else 1.0)
        of_replicas.run(lambda: optimizer.apply([summed], [variable]))

    for gradient in GRADIENTS:
        step(tf.constant(gradient))
    return variable


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_the_same_weights_as_keras(name, strategy):
    ours, of_keras = (
        np.asarray(trained(getattr(module, name), strategy=strategy).value)
        for module in (optimizer_lib, keras.optimizers)
    )
    assert np.abs(ours - START).max() > 0.05
    np.testing.assert_allclose(ours, of_keras, rtol=0, atol=TOLERANCE)


def test_a_named_optimizer_is_checked_where_its_rate_is_a_variable_of_replicas():
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        optimizer = build(name="keras.optimizers:Adagrad", schedule="constant", warmup_part=0.0)
    assert isinstance(optimizer, keras.optimizers.Adagrad)


def test_the_same_weights_as_the_formula():
    weights, first, second = START.astype(np.float64), np.zeros((4, 3)), np.zeros((4, 3))
    for step, gradient in enumerate(GRADIENTS.astype(np.float64), 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        alpha = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weights -= alpha * first / (np.sqrt(second) + 1e-7)
    np.testing.assert_allclose(np.asarray(trained(optimizer_lib.Adam).value), weights, rtol=0, atol=TOLERANCE)


def test_under_a_loss_scale():
    np.testing.assert_allclose(
        np.asarray(trained(optimizer_lib.Adam, scaled=True).value),
        np.asarray(trained(optimizer_lib.Adam).value),
        rtol=0,
        atol=1e-6,
    )


def test_variables_are_called_as_those_of_keras():
    names = []
    for module in (optimizer_lib, keras.optimizers):
        keras.utils.clear_session(free_memory=False)
        optimizer = module.AdamW()
        optimizer.build([keras.Variable(START, name="kernel")])
        names.append([variable.path for variable in optimizer.variables])
    assert names[0] == names[1]


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_clips_by_the_global_norm_as_the_formula(strategy):
    norms = np.sqrt((GRADIENTS.astype(np.float64) ** 2).sum((1, 2)))
    limit = float(np.median(norms))  # half of the steps are clipped
    weights, first, second = START.astype(np.float64), np.zeros((4, 3)), np.zeros((4, 3))
    for step, (gradient, norm) in enumerate(zip(GRADIENTS.astype(np.float64), norms, strict=True), 1):
        clipped = gradient * min(1.0, limit / norm)
        first, second = 0.9 * first + 0.1 * clipped, 0.999 * second + 0.001 * clipped**2
        alpha = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weights -= alpha * first / (np.sqrt(second) + 1e-7)

    found = trained(lambda rate: optimizer_lib.Adam(rate, global_clipnorm=limit), strategy=strategy)
    np.testing.assert_allclose(np.asarray(found.value), weights, rtol=0, atol=TOLERANCE)
    unclipped = trained(optimizer_lib.Adam, strategy=strategy)
    assert np.abs(np.asarray(unclipped.value) - weights).max() > 100 * TOLERANCE


def test_a_gradient_that_is_no_number_is_not_clipped_away():
    clipped = optimizer_lib.Adam(0.01, global_clipnorm=1.0)._clip_gradients(
        [tf.constant([1.0, 2.0]), tf.constant([float("nan")])]
    )
    assert all(np.isnan(each).all() for each in clipped)


def two_variables() -> list[keras.Variable]:
    return [keras.Variable(np.array([1.0, -2.0], "float32"), name=name) for name in ("slow", "fast")]


def updated(variables: list[keras.Variable], **settings: object) -> list[np.ndarray]:
    """The variables after three updates with the same gradients for each."""
    made = build(variables=tuple(variables), warmup_steps=2, weight_decay=0.1, **settings)
    for step in range(3):
        made.apply([np.array([0.5, step - 1.0], "float32")] * len(variables), variables)
    return [np.asarray(each) for each in variables]


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_a_pattern_multiplies_the_learning_rate_and_its_decay_as_an_optimizer_of_its_own_would(name):
    rates_by_name = (("fast", 10.0), ("*", 0.5))
    slow, fast = updated(two_variables(), name=name, learning_rate=0.01, rates=rates_by_name)
    (as_slow,) = updated(two_variables()[:1], name=name, learning_rate=0.005)
    (as_fast,) = updated(two_variables()[1:], name=name, learning_rate=0.1)
    np.testing.assert_allclose(slow, as_slow, rtol=1e-6)
    np.testing.assert_allclose(fast, as_fast, rtol=1e-6)
    assert not np.allclose(as_slow, as_fast, rtol=1e-3)


def test_a_rate_of_no_variable_is_refused():
    with pytest.raises(
        InputError, match=r"--config\.optimizer\.rates: received 'head/\*', which matches no variable"
    ):
        build(variables=tuple(two_variables()), rates=(("head/*", 2.0),))


@pytest.mark.parametrize("name", ["SGD(clipvalue=0.5)", "Adam(clipnorm=0.5)"])
def test_two_ways_to_clip_are_refused_as_keras_would_leave_one_out(name):
    config = base.get_config()
    config.optimizer.name, config.optimizer.clip_norm = name, 1.0
    with pytest.raises(InputError, match=r"clip_norm: received 1, beside clip\w+=0\.5 of .*=0, or leave"):
        optimizer.build(parsed(config).optimizer, [keras.Variable([1.0])], total_steps=3, precision=FLOAT32)

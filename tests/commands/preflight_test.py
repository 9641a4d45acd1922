"""The TPU's compiler itself, where requirements/preflight.txt is installed: its numbers against formulas."""

import importlib.util
import math

import keras
import pytest

from pipeline.forecast import compiler, lowering
from pipeline.forecast.compiler import FITS, TOO_LARGE
from pipeline.forecast.lowering import Weighed
from pipeline.forecast.target import targets_of
from pipeline.training.engine.precision import Precision
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("jax", "libtpu"))),
        reason="jax and libtpu are not installed: requirements/preflight.txt",
    ),
]
WIDTH, LAYERS = 512, 4


def wide(numeric: int, outputs: int) -> keras.Model:
    x = inputs = keras.Input((numeric,), name="numeric")
    for _ in range(LAYERS + 1):
        x = keras.layers.Dense(WIDTH, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


@pytest.fixture(scope="module")
def weighed(tmp_path_factory) -> Weighed:
    dataset = write_small_dataset(tmp_path_factory.mktemp("data") / "tiny")
    config = small_config()
    config.train.micro_batches, config.optimizer.ema = 1, 0.0
    with config.unlocked():
        config.model = {"name": f"{__name__}:wide"}
    precision = Precision(policy="mixed_bfloat16", reason="asked for")
    return lowering.weigh(parsed(config), dataset, precision=precision)


@pytest.mark.parametrize("topology", ["v5e:1x1", "v4:2x2x1", "v6e:2x2", "tpu7x:1x1x1", "tpu7x:2x2x1"])
def test_operations_and_arguments_are_those_of_the_formulas(weighed, topology):
    batch = 256
    found = compiler.compile_for(weighed.program(batch).content, topology, timeout_s=600, cache=None)
    assert found.verdict == FITS, found.message
    formula = 3 * 2 * batch * LAYERS * WIDTH**2  # the first and the last layer are a hundredth of it
    assert found.flops == pytest.approx(formula, rel=0.05)
    assert found.argument_bytes == pytest.approx(weighed.kept + batch * weighed.example, rel=0.01)
    assert found.peak_bytes > weighed.weights and found.cycles
    # So few activations stay in fast memory: what is left is each weight, with its moments, in and out.
    assert weighed.moved <= found.accessed_bytes < 1.1 * weighed.moved


@pytest.mark.parametrize("name", ["v4:1x1x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1"])
def test_a_batch_that_cannot_fit_is_said_with_both_sizes(weighed, name):
    (target,) = targets_of([name])
    program = weighed.program(1 << 26).content  # 64 GiB of outputs a layer
    found = compiler.compile_for(program, target.topology, timeout_s=600, cache=None)
    assert found.verdict == TOO_LARGE
    assert found.peak_bytes > found.limit_bytes
    assert found.limit_bytes == pytest.approx(1e9 * target.accelerator.memory_gb, rel=1e-3)


def dropping(numeric: int, outputs: int, *, rate: float = 0.5) -> keras.Model:
    x = inputs = keras.Input((numeric,), name="numeric")
    for _ in range(LAYERS):
        x = keras.layers.Dropout(rate)(keras.layers.Dense(64, activation="relu")(x))
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


def test_a_tpu_draws_its_random_numbers_itself(tmp_path):
    dataset, config, found = write_small_dataset(tmp_path / "tiny"), small_config(), {}
    config.train.micro_batches, config.optimizer.ema = 1, 0.0
    precision = Precision(policy="mixed_bfloat16", reason="asked for")
    for rate in (0.0, 0.5):
        with config.unlocked():
            config.model = {"name": f"{__name__}:dropping", "rate": rate}
        program = lowering.weigh(parsed(config), dataset, precision=precision).program(1 << 12).content
        found[rate] = compiler.compile_for(program, "v5e:1x1", timeout_s=600, cache=None)
    assert found[0.5].verdict == FITS, found[0.5].message
    # Philox would take 174 operations for each number, beside the 384 of a unit's products.
    assert found[0.0].flops < found[0.5].flops < 1.1 * found[0.0].flops


class Block(keras.layers.Layer):
    """Keeps some numbers for each that it gives."""

    def build(self, shape: tuple) -> None:
        self.up = keras.layers.Dense(4 * WIDTH, activation="gelu", dtype=self.dtype_policy)
        self.down = keras.layers.Dense(WIDTH, dtype=self.dtype_policy)
        self.drop = keras.layers.Dropout(0.1, dtype=self.dtype_policy)
        self.up.build((None, WIDTH))
        self.down.build((None, 4 * WIDTH))

    def call(self, x):
        return x + self.drop(self.down(self.up(x)))


def deep(numeric: int, outputs: int) -> keras.Model:
    inputs = keras.Input((numeric,), name="numeric")
    x = keras.layers.Dense(WIDTH)(inputs)
    for number in range(8):
        x = Block(name=f"block_{number}")(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


def test_what_is_computed_again_takes_less_memory_and_a_sixth_more_operations(tmp_path):
    dataset, config, found = write_small_dataset(tmp_path / "tiny"), small_config(), []
    config.train.micro_batches, config.optimizer.ema = 1, 0.0
    with config.unlocked():
        config.model = {"name": f"{__name__}:deep"}
    for config.train.remat in ((), ("block_*",)):
        precision = Precision(policy="mixed_bfloat16", reason="asked for")
        program = lowering.weigh(parsed(config), dataset, precision=precision).program(1 << 15).content
        found.append(compiler.compile_for(program, "v5e:1x1", timeout_s=600, cache=None))
    kept, again = found
    assert again.verdict == FITS, again.message
    assert again.peak_bytes < 0.5 * kept.peak_bytes
    # Of a block's two products only the first is computed again: no gradient needs what the second gave.
    assert again.flops == pytest.approx(7 / 6 * kept.flops, rel=0.02)


def normalised(numeric: int, outputs: int) -> keras.Model:
    inputs = keras.Input((numeric,), name="numeric")
    x = keras.layers.Dense(WIDTH, activation="relu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


@pytest.mark.parametrize(
    "topology_devices", [("v5e:2x2", 4), ("v5e:2x4", 8), ("v5e:8x8", 64), ("v5e:16x16", 256)]
)
def test_a_slice_sums_each_gradient_and_each_shared_statistic_once(tmp_path, topology_devices):
    topology, devices = topology_devices
    config = small_config()
    config.train.micro_batches, config.optimizer.ema = 1, 0.0
    with config.unlocked():
        config.model = {"name": f"{__name__}:normalised"}
    step = lowering.weigh(
        parsed(config),
        write_small_dataset(tmp_path / "tiny"),
        precision=Precision(policy="mixed_bfloat16", reason="asked for"),
        replicas=devices,
    )
    found = compiler.compile_for(
        step.program(8).content, topology, timeout_s=600, cache=None, replicas=devices
    )
    assert found.verdict == FITS, found.message
    gradients = sum(math.prod(each.shape) for each in step.model.trainable_variables)
    # Sums and counts, then squares, of each unit; on the way back, the gradients of both again.
    statistics = 2 * (2 * WIDTH + WIDTH)
    assert found.collectives == {"all-reduce": 4 * (gradients + statistics)}


def recurrent(numeric: int, outputs: int, *, unroll: bool) -> keras.Model:
    inputs = keras.Input((numeric,), name="numeric")
    x = keras.layers.Reshape((32, 16))(keras.layers.Dense(32 * 16)(inputs))
    x = keras.layers.LSTM(64, unroll=unroll)(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


@pytest.mark.parametrize("unroll", [False, True])
def test_a_loop_of_a_layer_is_told(tmp_path, unroll):
    config = small_config()
    config.train.micro_batches, config.optimizer.ema = 1, 0.0
    with config.unlocked():
        config.model = {"name": f"{__name__}:recurrent", "unroll": unroll}
    precision = Precision(policy="mixed_bfloat16", reason="asked for")
    dataset = write_small_dataset(tmp_path / "tiny")
    program = lowering.weigh(parsed(config), dataset, precision=precision).program(64).content
    found = compiler.compile_for(program, "v5e:1x1", timeout_s=600, cache=None)
    assert found.verdict == FITS, found.message
    products = 3 * 2 * 64 * 32 * (16 + 64) * 4 * 64  # of all steps: input and state to four gates
    assert (found.loops == 0, found.flops > 0.9 * products) == (unroll, unroll)

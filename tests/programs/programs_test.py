"""The step of each shipped config is the program that its golden counts: what doubles memory is seen here."""

import pathlib

import keras
import pytest
import tensorflow as tf

from pipeline import configs
from pipeline.forecast import lowering
from pipeline.training.engine.precision import Precision
from tests.programs import shipped
from tests.programs.summary import summarise
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

BATCH, WIDTH = 32, 64


def test_each_shipped_config_has_a_golden():
    folder = pathlib.Path(configs.__file__).parent
    shipped_configs = {path.stem for path in folder.glob("*.py")} - {"__init__", "base"}
    assert set(shipped.CASES) == shipped_configs == {path.stem for path in shipped.GOLDENS.iterdir()}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> pathlib.Path:
    return tmp_path_factory.mktemp("data")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped.CASES)
def test_a_step_is_the_program_that_it_was(name, scratch):
    golden = shipped.GOLDENS / f"{name}.txt"
    before = shipped.read(golden.read_text(encoding="utf-8"))
    if changed := shipped.changes(before, shipped.summary_of(name, scratch)):
        pytest.fail(
            f"The training step of pipeline/configs/{name}.py has changed:\n  "
            + "\n  ".join(changed)
            + f"\nIf that is wanted: python -m tests.programs.write {name}",
            pytrace=False,
        )


# --- The numbers, against a formula, and with changes that they must show.


class Kept(keras.layers.Layer):
    """Gives what it gets, but keeps another value of the same size for the backward pass."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.tanh(x) * 1e-3


class Turned(keras.layers.Layer):
    """Gives what it gets, turned over and back."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.sin(tf.transpose(x)))


class Same(keras.layers.Layer):
    """Gives what it gets."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x


LAYERS = {each.__name__: each for each in (Kept, Turned, Same)}


def network(numeric: int, outputs: int, *, layer: str) -> keras.Model:
    x = keras.Input((numeric,), name="numeric")
    hidden = keras.layers.Dense(WIDTH, activation="tanh", name="hidden")(x)
    hidden = LAYERS[layer](name="middle")(hidden)
    return keras.Model(x, keras.layers.Dense(outputs, dtype="float32", name="logits")(hidden))


@pytest.fixture(scope="module")
def dataset(scratch):
    return write_small_dataset(scratch / "tiny")


def summary(dataset, layer: str = "Same", *, batch: int = BATCH, replicas: int = 4) -> dict[str, str]:
    config = small_config()
    config.train.micro_batches = 1
    with config.unlocked():
        config.model = {"name": f"{__name__}:network", "layer": layer}
    precision = Precision(policy="mixed_bfloat16", reason="asked for")
    weighed = lowering.weigh(parsed(config), dataset, precision=precision, replicas=replicas)
    return {what: f"{n:,}" for what, n in summarise(weighed.program(batch).content).items()}


@pytest.fixture(scope="module")
def plain(dataset) -> dict[str, str]:
    return summary(dataset)


@pytest.mark.slow
def test_numbers_are_those_of_the_formulas(plain):
    weights = 2 * WIDTH + WIDTH + WIDTH + 1
    # Two inputs reach 64 units, forwards and back to the kernel; their own gradient nobody needs.
    assert plain["FLOP of products in bf16"] == f"{2 * 2 * BATCH * 2 * WIDTH:,}"
    assert plain["FLOP of products in f32"] == f"{3 * 2 * BATCH * WIDTH:,}"
    assert plain["bytes of all-reduce"] == f"{4 * weights:,}"
    assert plain["bytes of the largest value"] == f"{4 * BATCH * WIDTH:,}"
    # Each weight has a first and a second moment and an average, and none is there twice.
    assert int(plain["bytes of donated arguments"].replace(",", "")) >= 4 * 4 * weights


@pytest.mark.parametrize("convolve", [tf.nn.conv2d, tf.nn.depthwise_conv2d])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_convolution_counts_what_it_multiplies(convolve, padding):
    image, kernel = tf.ones([2, 9, 7, 4]), tf.ones([3, 3, 4, 2])

    def convolved(image: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return convolve(image, kernel, strides=[1, 2, 2, 1], padding=padding)

    @tf.function(jit_compile=True, autograph=False)
    def step(image: tf.Tensor, kernel: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([image, kernel])
            output = convolved(image, kernel)
        return [output, *tape.gradient(output, [image, kernel])]

    program = step.experimental_get_compiler_ir(image, kernel)(stage="hlo_serialized")
    # Each product of two ones adds one to a result. Both gradients multiply each pair of them once more.
    products = int(tf.reduce_sum(convolved(image, kernel)))
    assert summarise(program)["FLOP of products in f32"] == 3 * 2 * products


@pytest.mark.slow
def test_an_activation_that_is_kept_once_more_is_named(dataset, plain):
    changed = shipped.changes(plain, summary(dataset, "Kept"))
    assert any(line.startswith("bytes kept for the backward pass: ") for line in changed)
    kept = [line for line in changed if line.startswith("most bytes kept: ") and "/middle" in line]
    assert kept and all("not among the largest → " in line for line in kept)
    assert "transpose" not in "\n".join(changed)


@pytest.mark.slow
def test_a_transpose_is_named(dataset, plain):
    changed = shipped.changes(plain, summary(dataset, "Turned"))
    before = int(plain["transpose"])
    assert f"transpose: {before} → {before + 4} ({(before + 4) / before:.2f}x)" in changed


@pytest.mark.slow
def test_twice_the_batch_is_named(dataset, plain):
    changed = shipped.changes(plain, summary(dataset, batch=2 * BATCH))
    largest = 4 * BATCH * WIDTH
    assert f"bytes of the largest value: {largest:,} → {2 * largest:,} (2.00x)" in changed


def test_a_file_gives_back_what_it_keeps():
    text = (shipped.GOLDENS / "text.txt").read_text(encoding="utf-8")
    kept = shipped.read(text)
    assert shipped.text_of(kept) == text
    assert shipped.changes(kept, kept) == []

"""Lint, lowering and the search of the largest batch, against plain computations."""

import ast
import dataclasses
import inspect
import math
import os
import pathlib
import re
import select
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.forecast import compiler, lint, lowering, page, rehearsal, stages
from pipeline.forecast.compiler import FITS, TOO_LARGE, Compiled
from pipeline.forecast.lowering import Program, Weighed
from pipeline.forecast.target import targets_of
from pipeline.report import formats, html, terminal
from pipeline.training.engine.precision import Precision
from tests.shared.matrix import quick_cases
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

PNG = tf.io.encode_png(tf.zeros([2, 2, 1], tf.uint8)).numpy()
BFLOAT16 = Precision(policy="mixed_bfloat16", reason="asked for")
(V5E,) = targets_of(["v5e:2x2"])


class Product(keras.layers.Layer):
    """Multiplies matrices of int64, which no TPU does."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        whole = tf.cast(x, tf.int64)
        return x + tf.cast(tf.matmul(whole, whole, transpose_a=True)[0, 0], x.dtype)


class Text(keras.layers.Layer):
    """Makes text of numbers, which XLA does not."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.cast(tf.strings.length(tf.strings.as_string(tf.reduce_sum(x))), x.dtype)


class Foreign(keras.layers.Layer):
    """Calls a Python function in each step."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        same = tf.py_function(lambda value: value, [x], x.dtype)
        return tf.ensure_shape(same, x.shape)


class Picture(keras.layers.Layer):
    """Decodes a picture in each step."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        decoded = tf.io.decode_png(tf.constant(PNG), channels=1)
        return x + tf.reduce_mean(tf.cast(decoded, x.dtype))


class Printed(keras.layers.Layer):
    """Prints a number in each step."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        tf.print(tf.reduce_sum(x))
        return x


class AsArray(keras.layers.Layer):
    """Asks NumPy for values of a batch while the step is traced, when there are none."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + np.asarray(x).mean()


class AsArrayOfShape(AsArray):
    """The same, of a shape that it says: building the model does not run it."""

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return shape


class ChannelsFirst(keras.layers.Layer):
    """Has a convolution whose gradient a processor has only with oneDNN; else TensorFlow names no line."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.convolution = keras.layers.Conv2D(1, 3, data_format="channels_first", padding="same")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(self.convolution(tf.reshape(x, [-1, 1, 8, 8])), [-1, 64])


class Killed(keras.layers.Layer):
    """Is killed while the step is traced, as the system does where memory is short."""

    number = signal.SIGKILL

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if not isinstance(x, keras.KerasTensor):
            os.kill(os.getpid(), self.number)
        return x


class Aborting(Killed):
    """Ends by an abort, as libraries do."""

    number = signal.SIGABRT


class Leaving(Killed):
    """Ends the process in order."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if not isinstance(x, keras.KerasTensor):
            print("farewell", flush=True)
            os._exit(3)
        return x


class Distinct(keras.layers.Layer):
    """Keeps the different numbers of a batch."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.reduce_mean(tf.unique(tf.stop_gradient(tf.reshape(x, [-1])))[0])


class Masked(keras.layers.Layer):
    """Keeps as many numbers as the data say."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + tf.reduce_mean(tf.boolean_mask(x, x > 0))


class Unsized(keras.layers.Layer):
    """Forgets how many examples a batch has."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.PlaceholderWithDefault(input=x, shape=[None, x.shape[-1]])


class Parted(keras.layers.Layer):
    """Parts a batch where the data say."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        at = tf.cast(tf.reduce_sum(x) > 3, tf.int32)
        return tf.concat([x[at:], x[:at]], 0)


class Endless(keras.layers.Layer):
    """Doubles a number until it is large, however often that is."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 1e6, lambda y: (2.0 * y + 1.0,), (x,))[0]


class Nothing(keras.layers.Layer):
    """Changes nothing."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x


def network(numeric: int, outputs: int, *, layer: str = "Nothing") -> keras.Model:
    x = keras.Input((numeric,), name="numeric")
    hidden = keras.layers.Dense(64, activation="relu", name="hidden")(x)
    hidden = getattr(sys.modules[__name__], layer)(dtype="float32")(hidden)
    return keras.Model(x, keras.layers.Dense(outputs, dtype="float32", name="logits")(hidden))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("data") / "tiny")


def weighed(dataset: Dataset, layer: str = "Nothing") -> Weighed:
    config = small_config()
    config.train.micro_batches = 1
    with config.unlocked():
        config.model = {"name": f"{__name__}:network", "layer": layer}
    return lowering.weigh(parsed(config), dataset, precision=BFLOAT16)


@pytest.fixture(scope="module")
def plain(dataset) -> Weighed:
    return weighed(dataset)


def test_sizes_and_operations_are_those_of_the_formula(plain):
    found = plain
    weights = 2 * 64 + 64 + 64 * 1 + 1  # of two numbers, in float32
    assert found.weights == 4 * weights
    assert found.averages == 4 * weights
    assert found.optimizer >= 2 * 4 * weights  # both moments of AdamW
    assert found.flops == 3 * 2 * (2 * 64 + 64 * 1)
    assert found.moved == 2 * (found.weights + found.optimizer + found.averages)
    by_name = {layer.name: layer for layer in found.layers}
    # The product, the bias and the ReLU put out 64 numbers of two bytes each.
    assert (by_name["hidden"].weights, by_name["hidden"].outputs) == (4 * (2 * 64 + 64), 3 * 2 * 64)
    assert sum(layer.weights for layer in found.layers) == 4 * weights
    assert found.program(8).content


def unnamed(numeric: int, outputs: int) -> keras.Model:
    x = inputs = keras.Input((numeric,), name="numeric")
    for width in (64, 8):
        x = keras.layers.Dense(width)(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32")(x))


def test_layers_that_keras_names_keep_their_own_outputs(dataset):
    config = small_config()
    with config.unlocked():
        config.model = {"name": f"{__name__}:unnamed"}
    layers = lowering.weigh(parsed(config), dataset, precision=BFLOAT16).layers
    # Products and biases: dense, dense_1, dense_2, of which the last is float32.
    outputs = {each.name: each.outputs for each in layers}
    assert outputs == {"dense": 2 * 2 * 64, "dense_1": 2 * 2 * 8, "dense_2": 2 * 4}


@pytest.mark.parametrize(
    ("layer", "what", "line"),
    quick_cases(
        [
            ("Product", "a product of int64 matrices", "tf.matmul"),
            ("Text", "AsString", "as_string"),
            ("Foreign", "EagerPyFunc", "py_function"),
            ("Picture", "DecodePng", "decode_png"),
            ("Printed", "StringFormat", "tf.print"),
        ],
        [("Product", "a product of int64 matrices", "tf.matmul"), ("Foreign", "EagerPyFunc", "py_function")],
    ),
)
def test_what_does_not_compile_is_named_with_its_line(dataset, layer, what, line):
    source, first = inspect.getsourcelines(getattr(sys.modules[__name__], layer))
    at = first + next(number for number, text in enumerate(source) if line in text)
    with pytest.raises(InputError) as raised:
        weighed(dataset, layer).program(8)
    assert what in str(raised.value)
    assert f"{pathlib.Path(__file__).name}, line {at}, in call" in str(raised.value)


@pytest.mark.parametrize(
    ("layer", "operation"),
    quick_cases(
        [("Masked", "Where"), ("Distinct", "Unique"), ("Unsized", "PlaceholderWithDefault")],
        [("Unsized", "PlaceholderWithDefault")],
    ),
)
def test_results_of_a_size_that_the_data_give_are_noted(dataset, plain, layer, operation):
    found = [each.text for each in weighed(dataset, layer).program(8).findings]
    assert operation in found[0] and "in call" in found[0]
    assert not plain.program(8).findings


def test_a_loop_without_a_limit_is_named_with_its_line(dataset):
    said = r"a loop that nothing limits, of .*forecast_test.py, line \d+, in call.*Give it maximum_iterations"
    with pytest.raises(InputError, match=said):
        weighed(dataset, "Endless").program(8)


@pytest.mark.slow
def test_a_batch_that_is_parted_where_the_data_say_is_named(dataset):
    with pytest.raises(InputError, match=r"size depends on data, first of StridedSlice, .* in call"):
        weighed(dataset, "Parted").program(8)


@pytest.mark.parametrize("layer", ["AsArray", "AsArrayOfShape"])
def test_numpy_in_a_model_is_named_with_the_layer_and_its_line(dataset, layer):
    source, first = inspect.getsourcelines(AsArray)
    line = first + next(number for number, text in enumerate(source) if "np.asarray" in text)
    with pytest.raises(InputError, match=rf"as_array.*{pathlib.Path(__file__).name}, line {line}\b"):
        weighed(dataset, layer).program(8)


def test_a_table_that_is_updated_whole_is_noted():
    ids = keras.Input((1,), dtype="int32", name="ids")
    rows = 10_000_000
    table = keras.layers.Embedding(rows, 16, name="items_embedding", embeddings_initializer="zeros")
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Flatten()(table(ids))))
    (finding,) = lint._tables(model)
    assert "items_embedding" in finding.text and formats.size(4 * rows * 16) in finding.text


def test_padding_is_counted(plain):
    found = [str(each) for each in lint.findings(plain, V5E, batch=10, policy="mixed_bfloat16")]
    waste = 1 - 2 * 64 / (8 * 128)  # of the kernel 2 × 64
    assert any(f"hidden/kernel 2×64: {100 * waste:.1f}" in each for each in found)
    assert any("10 examples a device are padded to 16: up to 37.5" in each for each in found)
    assert not any(
        "padded" in str(each) for each in lint.findings(plain, V5E, batch=16, policy="mixed_bfloat16")
    )


@pytest.mark.parametrize(
    ("target", "policy", "words"),
    [
        ("t4:1", "mixed_bfloat16", "does not compute bfloat16"),
        ("v5e:2x2", "float32", "multiplies float32"),
        ("v5e:2x2", "mixed_float16", "no float16"),
    ],
)
def test_formats_that_a_chip_lacks_are_noted(plain, target, policy, words):
    (asked,) = targets_of([target])
    found = [str(each) for each in lint.findings(plain, asked, batch=16, policy=policy)]
    assert any(words in each for each in found)


@pytest.mark.parametrize("limit", [7, 8, 9, 100, 1_000, 4_097, 65_535])
@pytest.mark.parametrize("first", [1, 8, 64, 100_000])
@pytest.mark.parametrize(
    ("share", "most"),
    [
        (lambda part: 0.1 + 0.9 * part, 6),  # weights, and a line
        (lambda part: 0.1 + 0.9 * part**1.2, 12),
        (lambda part: 1.0 + (part - 1.0) / 1e6, 40),
        (lambda part: 0.5 if part <= 1.0 else math.inf, 40),  # a compiler that gives no sizes
    ],
)
def test_the_largest_batch_fits_and_one_step_more_does_not(first, limit, share, most):
    tried = []

    def of_memory(batch: int) -> float:
        tried.append(batch)
        return share(batch / limit)

    found = stages.largest_batch(first, of_memory, empty=0.1)
    assert found == 0 if limit < 8 else 8 <= found <= limit < found + stages.step_of(found)
    assert len(tried) == len(set(tried)) <= most


@pytest.mark.parametrize("limit", [23, 24, 1_000, 65_535])
def test_a_search_tries_batches_that_micro_batches_divide(limit):
    tried = []

    def of_memory(batch: int) -> float:
        tried.append(batch)
        return 0.1 + 0.9 * batch / limit

    found = stages.largest_batch(96, of_memory, empty=0.1, grain=24)
    assert not any(each % 24 for each in tried)
    assert found == 0 if limit < 24 else found <= limit < found + stages.step_of(found, 24)


def test_a_search_says_what_fits_and_what_did_not(plain, monkeypatch):
    def compiled(program: bytes, topology: str, **more) -> Compiled:
        fits = int(program) <= 1_000
        return Compiled(verdict=FITS if fits else TOO_LARGE, peak_bytes=15.75e6 * int(program), flops=1e9)

    monkeypatch.setattr(Weighed, "program", lambda self, batch: Program(content=b"%d" % batch, findings=()))
    monkeypatch.setattr(compiler, "compile_for", compiled)
    common = {"policy": "mixed_bfloat16", "timeout_s": 1, "cache": None, "searches": True}
    found = stages.forecast(plain, V5E, batch=64, **common)
    assert found.largest_batch <= 1_000 < found.refused_batch
    assert found.refused_batch - found.largest_batch <= stages.step_of(found.largest_batch)
    shown = terminal.render([page.head([found], None)])
    assert f"{found.largest_batch:,}; {found.refused_batch:,} does not fit" in shown


def test_where_a_search_ends_more_may_fit(plain):
    largest = stages.largest_batch(8, lambda batch: batch * 1e-9)
    forecast = stages.Forecast(target=V5E, batch=8, stages=(), weighed=plain, largest_batch=largest)
    assert f"at least {largest:,}" in terminal.render([page.head([forecast], None)])


def test_memory_in_powers_of_two_takes_no_walk_of_8_examples_a_compilation():
    tried = []

    def of_memory(batch: int) -> float:
        tried.append(batch)
        return 0.36 + 5.76e-7 * 2 ** math.ceil(math.log2(batch))

    found = stages.largest_batch(3_000_000, of_memory, empty=0.36)
    assert of_memory(found) <= 1.0 < of_memory(found + stages.step_of(found))
    assert len(tried) <= 44


def test_cycles_are_of_layers_and_the_band_of_both_estimates(plain):
    compiled = Compiled(
        verdict=FITS,
        flops=197e9,
        cycles={"network_1/hidden_3": 600_000, "network/logits": 900_000, "adam_w": 1_500_000},
    )
    band = stages._band(plain, compiled, V5E, batch=8)
    assert math.isclose(band.low, 1e-3)  # arithmetic takes longer than the memory of so few weights
    moving = stages._band(dataclasses.replace(plain, moved=819e7), compiled, V5E, batch=8)
    assert (moving.low, moving.high) == pytest.approx((2e-3, 10e-3))
    accessing = stages._band(plain, dataclasses.replace(compiled, accessed_bytes=819e7), V5E, batch=8)
    assert (accessing.low, accessing.high) == pytest.approx((2e-3, 10e-3))
    assert math.isclose(band.high, 3e6 / 1.5e9)
    forecast = stages.Forecast(target=V5E, batch=8, stages=(), weighed=plain, compiled=compiled, band=band)
    assert stages.by_layer(forecast, most=3) == [("adam_w", 0.5), ("logits", 0.3), ("hidden", 0.2)]
    assert page.utilisation(forecast) == "50.0% to 100.0%"
    assert page.time(band) == "1 ms to 2 ms"


def test_a_loop_of_which_one_round_is_counted_has_no_time(plain, monkeypatch):
    looped = Compiled(verdict=FITS, flops=197e9, cycles={"lstm": 600_000}, loops=2)
    monkeypatch.setattr(compiler, "compile_for", lambda *args, **more: looped)
    found = stages.forecast(plain, V5E, batch=8, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert (found.band, found.fits, found.is_good) == (None, False, True)
    assert found.flops == 8 * plain.flops  # those of the graph, not the compiler's
    (stage,) = [each for each in found.stages if each.name == "time"]
    assert "none is forecast: of 2 loops" in stage.verdict


def test_a_batch_many_times_too_large_is_refused_by_a_part_of_it(plain, monkeypatch):
    asked = []

    def answer(program: bytes, topology: str, *, is_quick: bool, **more) -> Compiled:
        asked.append(is_quick)
        return Compiled(verdict=FITS, peak_bytes=2e9 if is_quick else 1e9)

    def forecast(batch: int) -> stages.Forecast:
        asked.clear()
        return stages.forecast(large, V5E, batch=batch, policy="mixed_bfloat16", timeout_s=1, cache=None)

    monkeypatch.setattr(compiler, "compile_for", answer)
    # Outputs of 1 GB an example, and 16.9 GB of memory: the part that is compiled has 16 examples.
    layer = dataclasses.replace(plain.layers[0], outputs=10**9)
    large = dataclasses.replace(plain, layers=(layer,))
    found = forecast(1_024)
    assert asked == [True] and not found.is_good
    assert found.used_bytes == pytest.approx(1_024 / 16 * 2e9, rel=1e-3)
    said = found.stages[-1]
    assert (
        "does not fit: 119.2 GiB where there are 15.7 GiB, reckoned from a compilation of 16" in said.verdict
    )
    assert any("Always there" in each.text for each in said.findings)
    # Twice too large, or outputs of four times the memory: the compiler decides.
    assert forecast(144).is_good and asked == [True, False]
    assert forecast(64).is_good and asked == [False]


def test_cycles_and_memory_by_layer_are_on_terminal_and_page(plain):
    compiled = Compiled(verdict=FITS, cycles={"network_1/hidden_3": 900_000, "adam_w": 100_000})
    of_micro_batches = dataclasses.replace(plain, micro_batches=2)
    forecast = stages.Forecast(
        target=V5E, batch=1_024, stages=(), weighed=of_micro_batches, compiled=compiled
    )
    weights, outputs = 4 * (2 * 64 + 64), 512 * 3 * 2 * 64  # half of the batch is in memory at once
    assert ("hidden", weights, outputs) in stages.memory_by_layer(forecast, most=3)
    section = page.section(forecast)
    for shown in (terminal.render([section]), html.page(section, [])):
        assert "Where the cycles go" in shown and "90" in shown
        assert "Where the memory goes" in shown
        assert formats.size(weights) in shown and formats.size(outputs) in shown


def test_a_gpu_without_room_is_said_with_what_takes_it(plain):
    (asked,) = targets_of(["l4:1"])
    subject = plain
    huge = dataclasses.replace(subject, weights=int(30e9))
    found = stages.forecast(huge, asked, batch=8, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert found.used_bytes > found.available_bytes
    assert "does not fit" in found.stages[-1].verdict and not found.is_good
    assert any("Always there: weights 27.9 GiB" in each.text for each in found.stages[-1].findings)


def test_outputs_without_room_on_a_gpu_speak_not_surely_against_it(plain):
    (asked,) = targets_of(["l4:1"])  # the compiler may keep only some of them
    found = stages.forecast(plain, asked, batch=1 << 30, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert "may not fit" in found.stages[-1].verdict and found.is_good and not found.fits
    shown = terminal.render([page.head([found], None)])
    assert "l4:1    may not fit" in shown and "100.0%" not in shown


class Block(keras.layers.Layer):
    """Computes four times as many numbers as it gets and gives."""

    def build(self, shape: tuple) -> None:
        self.up = keras.layers.Dense(4 * shape[-1], activation="relu", name="up", dtype=self.dtype_policy)
        self.down = keras.layers.Dense(shape[-1], name="down", dtype=self.dtype_policy)
        self.up.build(shape)
        self.down.build((*shape[:-1], 4 * shape[-1]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.down(self.up(x))


def deep(numeric: int, outputs: int, *, blocks: int) -> keras.Model:
    x = inputs = keras.Input((numeric,), name="numeric")
    x = keras.layers.Dense(64, name="first")(x)
    for number in range(blocks):
        x = Block(name=f"block_{number}")(x)
    return keras.Model(inputs, keras.layers.Dense(outputs, dtype="float32", name="logits")(x))


def weighed_blocks(dataset: Dataset, *, remat: tuple[str, ...] = ()) -> Weighed:
    config = small_config()
    config.train.micro_batches, config.train.remat = 1, remat
    with config.unlocked():
        config.model = {"name": f"{__name__}:deep", "blocks": 5}
    return lowering.weigh(parsed(config), dataset, precision=BFLOAT16)


def test_layers_that_are_computed_again_keep_only_what_others_use(dataset):
    kept, again = weighed_blocks(dataset), weighed_blocks(dataset, remat=("block_*",))
    # Product, bias and ReLU of 256 numbers, and the product of 64 before the bias that the next block gets,
    # of two bytes; in the block that is being computed again they are there.
    one = 2 * (3 * 4 * 64 + 64)
    assert kept.activations(3) - again.activations(3) == 3 * 4 * one
    assert (kept.again, again.again) == (0, 4 * one)
    assert (kept.again_with, again.again_with) == (("block*", 4 * one), ("", 0))


def test_the_advice_makes_a_batch_fit(dataset):
    kept, (asked,) = weighed_blocks(dataset), targets_of(["l4:1"])
    batch = round(1.2 * 1e9 * asked.accelerator.memory_gb / kept.activations(1))
    found = stages.forecast(kept, asked, batch=batch, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert not found.fits
    advised = " ".join(each.advice or "" for each in found.stages[-1].findings)
    (remat,) = re.findall(r'--config\.train\.remat="([^"]+)"', advised)
    with_it = weighed_blocks(dataset, remat=ast.literal_eval(remat))
    found = stages.forecast(with_it, asked, batch=batch, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert found.fits
    assert "remat" not in str(list(stages.breakdown(with_it, batch=1 << 20)))


def test_a_gpu_holds_its_batch_and_what_is_not_counted_is_told(plain):
    (asked,) = targets_of(["l4:1"])
    common = {"batch": 8, "policy": "mixed_bfloat16", "timeout_s": 1, "cache": None}
    found = stages.forecast(plain, asked, **common)
    own = plain.kept + plain.gradients + plain.activations(8)
    assert found.used_bytes == own + 8 * plain.example and plain.example >= 2 * 4
    looped = stages.forecast(dataclasses.replace(plain, flops=None), asked, **common)
    said = {each.name: each for each in looped.stages}
    assert "are not known" in said["time"].verdict
    assert "loops are not counted" in said["memory"].verdict and said["memory"].is_good is None


@pytest.mark.parametrize(("is_frozen", "needed"), [(False, 2), (True, 1)])
def test_the_least_time_of_a_gpu_holds_only_what_any_step_computes(plain, is_frozen, needed):
    (asked,) = targets_of(["l4:1"])
    # Two products of a forward pass, and those of the weights' gradients; frozen weights have none.
    of_one = 2 * (2 * 64 + 64 * 1)
    subject = dataclasses.replace(plain, is_frozen=is_frozen)
    found = stages.forecast(subject, asked, batch=1 << 24, policy="mixed_bfloat16", timeout_s=1, cache=None)
    assert found.band.low == pytest.approx(needed * of_one * (1 << 24) / 121e12)


def test_a_forecast_tells_what_the_model_leaves_unused_as_training_does(plain):
    assert any(each.startswith("unused ") for each in plain.notes), plain.notes
    _, what = plain.notes[-1].split(maxsplit=1)
    assert f"unused  {what}" in terminal.render([page.head([], None, told=plain.notes)])


def test_a_name_that_fills_its_column_is_one_too():
    line = "validation train[90%:], as the dataset has no such split"
    assert "validation  train[90%:], as" in terminal.render([page.head([], None, told=[line])])


@pytest.mark.parametrize(("rate", "is_good"), [(0.1, True), (3e38, False)])
def test_two_steps_say_which_weight_is_no_number(tmp_path, rate, is_good):
    dataset, config = write_small_dataset(tmp_path / "tiny"), small_config()
    config.optimizer.learning_rate = rate
    found = rehearsal.two_steps(parsed(config), dataset, tf.distribute.get_strategy())
    assert found.is_good == is_good, found
    assert is_good or "is no finite number" in found.findings[0].text


def test_two_steps_name_the_line_that_fails(dataset):
    config = small_config()
    with config.unlocked():
        config.model = {"name": f"{__name__}:network", "layer": "AsArrayOfShape"}
    found = rehearsal.two_steps(parsed(config), dataset, tf.distribute.get_strategy())
    source, first = inspect.getsourcelines(AsArray)
    line = first + next(number for number, text in enumerate(source) if "np.asarray" in text)
    assert found.is_good is False and f"{pathlib.Path(__file__).name}, line {line}." in found.verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "verdict", "is_good"),
    [
        ("Nothing", "2 steps of 16 examples on two replicas", True),
        ("ChannelsFirst", "InvalidArgumentError: ", False),
        ("Killed", "left out: the system ended them", None),
        ("Aborting", "their process had an end by SIGABRT", False),
        ("Leaving", "their process had exit code 3: farewell", False),
    ],
)
def test_two_steps_have_a_process_of_their_own_and_a_verdict_however_it_ends(
    dataset, plain, monkeypatch, layer, verdict, is_good
):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    config = small_config()
    with config.unlocked():
        config.model = {"name": f"{__name__}:network", "layer": layer}
    found = rehearsal.rehearse(
        config.to_dict(), [str(dataset.directory)], config_file="", weighed=plain, free_bytes=1 << 40
    )
    assert (found.verdict[: len(verdict)], found.is_good) == (verdict, is_good), found


def test_two_steps_for_which_memory_is_missing_are_left_out_with_both_sizes(tmp_path):
    dataset, experiment = write_small_dataset(tmp_path / "tiny"), parsed(small_config())
    weighed = dataclasses.replace(
        lowering.weigh(experiment, dataset, precision=BFLOAT16), weights=10**9, optimizer=2 * 10**9
    )
    found = rehearsal.rehearse({}, [], config_file="", weighed=weighed, free_bytes=4 << 30)
    assert (found.verdict, found.is_good) == ("left out: too little memory", None)
    assert "5.8 GiB here, and 4.0 GiB are free" in found.findings[0].text


def test_only_answers_on_the_program_are_kept_and_none_that_cannot_be_written(monkeypatch, tmp_path):
    given = []
    monkeypatch.setattr(compiler, "_PACKAGES", ())
    monkeypatch.setattr(compiler, "_in_process", lambda *_, **__: Compiled(verdict=given.pop(0)))

    def verdict(cache: pathlib.Path) -> str:
        return compiler.compile_for(b"program", "v5e:1x1", timeout_s=1, cache=cache).verdict

    given[:] = [compiler.FAILED, compiler.ENDED, FITS]  # a broken installation, which is then repaired
    assert [verdict(tmp_path) for _ in range(4)] == [compiler.FAILED, compiler.ENDED, FITS, FITS]
    (tmp_path / "file").touch()
    given[:] = [FITS, FITS]
    assert [verdict(tmp_path / "file") for _ in range(2)] == [FITS, FITS] and not given


def test_two_runs_may_keep_the_same_answer_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "_PACKAGES", ())
    monkeypatch.setattr(compiler, "_in_process", lambda *_, **__: Compiled(verdict=FITS))
    replace, others = pathlib.Path.replace, []

    def keep() -> Compiled:
        return compiler.compile_for(b"program", "v5e:1x1", timeout_s=1, cache=tmp_path)

    def replace_after_another_run(draft: pathlib.Path, path: pathlib.Path) -> None:
        if not others:
            others.append(path)
            others.append(keep())
        assert draft.exists()
        replace(draft, path)

    monkeypatch.setattr(pathlib.Path, "replace", replace_after_another_run)
    assert keep().verdict == FITS
    assert [path.name for path in tmp_path.iterdir()] == [others[0].name]


def test_the_compiler_ends_with_the_run_that_started_it(tmp_path):
    pipe = tmp_path / "step.hlo"
    os.mkfifo(pipe)
    call = f"compiler._in_process(pathlib.Path({str(pipe)!r}), 'v5e:1x1', 1, timeout_s=600)"
    code = f"import pathlib\nfrom pipeline.forecast import compiler\n{call}"
    run = subprocess.Popen([sys.executable, "-c", code])
    with pipe.open("wb") as read:  # opens when the compiler reads it
        run.kill()
        run.wait()
        closed = select.poll()
        closed.register(read, select.POLLERR)
        assert closed.poll(20_000)  # nobody reads it any more

"""Whatever a request holds, for every kind: finite answers, the same through each way to the model."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.cells import typed
from beam_jobs.conversion.records import encode
from beam_jobs.inference.batches import Batch
from beam_jobs.inference.model import ExportedModel
from models.wide_deep import wide_deep
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.preprocessing.preprocess import BY_TYPE, Preprocess
from pipeline.data.preprocessing.requests import read_from_text
from pipeline.data.reading.parsing import parse_examples
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import FEATURE_TYPES, Label
from pipeline.data.schema.schema import Schema
from pipeline.exporting import requests as requests_lib
from pipeline.exporting.recording import record
from pipeline.exporting.signatures import signatures
from pipeline.serving.servers import columns_as_json
from tests.conformance.feature_types.conformance_test import UGLY, as_bytes, measured, typed_rows
from tests.conformance.feature_types.examples import EXAMPLES, Example
from tests.shared.model_server import inputs_of_json
from tests.shared.tiny_dataset import serialize

INPUTS = [example for example in EXAMPLES if not isinstance(example.feature, Label)]
assert {type(example.feature) for example in EXAMPLES} == {*FEATURE_TYPES.values()}
LABEL = Label(name="y", classes=("no", "yes"))
SCHEMA = Schema(name="all", features=(*(example.feature for example in INPUTS), LABEL))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways to one model: as training feeds it, and as its export is served."""

    training: Callable[[tf.Tensor], tf.Tensor]  # records, string [n] → logits [n, 1]
    served: tf.Module

    def trained_with(self, records: list[bytes]) -> np.ndarray:
        """Logits as probabilities [records, 2], by the preprocessing of training."""
        logits = self.training(tf.constant(records))
        return tf.nn.sigmoid(tf.concat([-logits, logits], axis=1)).numpy()

    def predicted(self, records: list[bytes]) -> np.ndarray:
        batch = Batch(input_split=0, ordinal=0, keys=b"", examples=tuple(records))
        (answer,) = ExportedModel("").run_inference([batch], self.served)
        return answer.outputs["probabilities"]

    def raw(self, values: Mapping[str, object]) -> np.ndarray:
        """Of a row of `values`, by feature."""
        tensors = {name: as_requested(SCHEMA[name], value) for name, value in values.items()}
        return self.served.signatures["raw"](**tensors)["probabilities"].numpy()


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    statistics = {example.name: measured(example).features[example.name] for example in INPUTS}
    preprocess = Preprocess(SCHEMA, SplitStatistics(examples=3, features=statistics))
    model, directory = small_model(preprocess), tmp_path_factory.mktemp("export")
    export(model, preprocess, directory)

    @tf.function
    def training(records: tf.Tensor) -> tf.Tensor:
        features, _ = parse_examples(records, SCHEMA)
        return model(preprocess(features), training=False)

    return Ways(training=training, served=tf.saved_model.load(str(directory)))


def small_model(preprocess: Preprocess) -> keras.Model:
    """Of all inputs that there are, pictures too."""
    keras.utils.set_random_seed(0)
    sizes = preprocess.inputs
    table = wide_deep(
        numeric=sizes.numeric,
        cardinalities=sizes.cardinalities,
        sequences=sizes.sequences,
        outputs=1,
        embedding=2,
        hidden=(4,),
    )
    image = keras.Input(sizes.image_shape, dtype=sizes.image_dtype, name="image")
    seen = keras.layers.Dense(1)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(image)))
    return keras.Model([*table.inputs, image], keras.layers.Add()([table.output, seen]))


def export(model: keras.Model, preprocess: Preprocess, directory: pathlib.Path) -> None:
    """As `pipeline.exporting.export`, without the archive of Keras, which traces each signature twice."""
    module = tf.Module()
    module.parts = [model, preprocess]
    functions = signatures(model, preprocess, SCHEMA)
    concrete = {name: function.get_concrete_function() for name, function in functions.items()}
    tf.saved_model.save(module, str(directory), signatures=concrete)


def tensor(feature: Feature, values: list) -> tf.Tensor:
    array = np.array(values, {"float32": np.float32, "int64": np.int64, "string": object}[feature.dtype])
    return tf.constant(array.reshape(len(values), *feature.shape), dtype=feature.dtype)


ANY = {
    "float32": st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45]),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([0, -1, 1 << 31, 1 << 32]),
    "string": st.text(max_size=8) | st.sampled_from(["", " ", "\t\n", "\0", "[UNK]", "é" * 300]),
}


def as_requested(feature: Feature, value: object) -> tf.Tensor:
    """[1, *shape] as `raw` takes it, of what a record holds, or of the text that raw data have for it."""
    if not feature.is_text_in_requests or feature.shape:
        return tensor(feature, [value])
    if isinstance(value, str | bytes):
        return tf.constant([value])
    return tf.constant(BY_TYPE.of(feature).spelled(feature, np.array([value])))


def requests(example: Example) -> st.SearchStrategy:
    """Anything of the right type and shape; pictures only such that decode, or TensorFlow raises."""
    feature = example.feature
    if not BY_TYPE.of(feature).is_text or (feature.is_text_in_requests and feature.dtype != "string"):
        return st.sampled_from(example.stored())  # what text stands for is of limited range
    values = ANY[feature.dtype] | st.sampled_from(np.ravel(example.stored()).tolist())
    size = math.prod(feature.shape)
    return st.lists(values, min_size=size, max_size=size) if feature.shape else values


@pytest.mark.slow
@settings(max_examples=10)
@given(values=st.fixed_dictionaries({example.name: requests(example) for example in INPUTS}))
def test_any_request_gets_a_finite_answer_the_same_by_both_signatures(ways, values):
    answer = ways.raw(values)
    assert np.isfinite(answer).all()
    np.testing.assert_array_equal(ways.predicted([serialize(SCHEMA, values)]), answer)


EXTREMES = {
    "float32": [math.nan, math.inf, -math.inf, 3.4e38, -3.4e38, 1e-45, -0.0],
    "int64": [-(1 << 63), -1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1],
    "string": ["", " \t", "unknown", "[UNK]", "\0", "x" * 10_000],
}


@pytest.mark.parametrize("example", INPUTS, ids=lambda example: example.name)
def test_every_extreme_value_of_a_kind_gets_a_finite_answer(ways, example):
    feature, usual = example.feature, {other.name: other.stored()[0] for other in INPUTS}
    if not BY_TYPE.of(feature).is_text:
        return
    for value in EXTREMES[feature.dtype]:
        values = [value] * math.prod(feature.shape) if feature.shape else value
        record = serialize(SCHEMA, usual | {example.name: values})
        assert np.isfinite(ways.predicted([record])).all(), (example.name, value)
    for text in EXTREMES["string"] if feature.is_text_in_requests and not feature.shape else ():
        assert np.isfinite(ways.raw(usual | {example.name: text})).all(), (example.name, text)


def cells(example: Example) -> st.SearchStrategy:
    """Cells as raw data spells them, all of which conform."""
    usual, *others = [as_bytes(cell) for cell, _ in example.good]
    good = st.sampled_from([usual, *others])
    if not BY_TYPE.of(example.feature).is_text:
        return good
    ugly = st.sampled_from(
        [cell for (cell,) in map(pa.Array.to_pylist, UGLY.values()) if type(cell) in (str, bytes)]
    )
    drawn = (ugly | st.text(max_size=8)).map(as_bytes)
    return good | drawn.map(lambda cell: usual if typed_rows(example, pa.array([cell]))[1] else cell)


def requested(feature: Feature, cell: bytes, value: object) -> object:
    """What a request holds where raw data hold `cell`, of which conversion made `value`; None: missing."""
    if feature.shape and value is None:
        return [feature.fill] * math.prod(feature.shape)
    if feature.is_text_in_requests and not feature.shape:
        return cell
    return (
        math.nan if value is None and feature.dtype == "float32" else feature.fill if value is None else value
    )


@settings(max_examples=8)
@given(spelled=st.fixed_dictionaries({example.name: cells(example) for example in INPUTS}))
def test_what_conversion_keeps_is_trained_on_predicted_and_served_alike(ways, spelled):
    rows = [typed_rows(example, pa.array([spelled[example.name]]))[0] for example in INPUTS]
    columns = {example.name: row.column(1) for example, row in zip(INPUTS, rows, strict=True)}
    record = encode(pa.record_batch({**columns, LABEL.name: pa.array([1])}), SCHEMA).to_pylist()
    request = {e.name: requested(e.feature, spelled[e.name], columns[e.name][0].as_py()) for e in INPUTS}
    answer = ways.trained_with(record)
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(ways.predicted(record), answer, rtol=1e-6)
    np.testing.assert_allclose(ways.raw(request), answer, rtol=1e-6)


def test_recorded_requests_of_every_kind_survive_storage_and_json(ways, tmp_path):
    row = {example.name: example.stored()[0] for example in INPUTS}
    examples = tf.constant([serialize(SCHEMA, row)] * 2)
    functions = {
        "serving_default": lambda given: ways.served.signatures["serving_default"](examples=given),
        "raw": lambda given: ways.served.signatures["raw"](**given),
    }
    found = record(functions, examples, schema=SCHEMA, model=keras.Sequential())
    requests_lib.save(found, tmp_path)
    for call, loaded in zip(found.calls, requests_lib.load(tmp_path).calls, strict=True):
        for one, other in ((call.inputs, loaded.inputs), (call.outputs, loaded.outputs)):
            assert sorted(one) == sorted(other)
            assert all(same(one[name], other[name]) for name in one), call.signature
        if call.rows:
            document = json.loads(json.dumps({"inputs": columns_as_json(call.inputs)}))
            sent = inputs_of_json(document)
            asked = {name: np.array(values, call.inputs[name].dtype) for name, values in sent.items()}
            assert all(same(call.inputs[name], asked[name]) for name in call.inputs)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether dtype, shape and bits are; of text, its bytes."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()


READ_FROM_TEXT = {feature.name for feature in read_from_text(SCHEMA)}


def test_numbers_and_dates_that_conversion_would_reject_are_named(ways):
    usual = {other.name: other.stored()[0] for other in INPUTS}
    for example in INPUTS:
        if example.name in READ_FROM_TEXT:
            assert unread(ways, {**usual, example.name: "abc"}) == example.name
    both = sorted(READ_FROM_TEXT)[:2]
    found = unread(ways, {**usual, **dict.fromkeys(both, "1.299,90,1")})
    assert sorted(found.split(", ")) == both


@pytest.mark.parametrize(
    "example", [each for each in INPUTS if each.name in READ_FROM_TEXT], ids=lambda each: each.name
)
def test_what_is_named_is_what_conversion_cannot_read(ways, example):
    usual = {other.name: other.stored()[0] for other in INPUTS}
    texts = [cell for (cell,) in map(pa.Array.to_pylist, UGLY.values()) if type(cell) in (str, bytes)]
    texts += [f"{sign}{text}" for sign in ("", " ", "-") for text in NUMBERS_AND_DATES]
    for text in map(as_bytes, texts):
        reasons = typed.parse(example.feature, pa.array([text])).problems.values()
        cannot_read = any(not reason.startswith(("missing", "below", "above")) for reason in reasons)
        assert unread(ways, {**usual, example.name: text}) == (example.name if cannot_read else ""), text


NUMBERS_AND_DATES = (
    "1", "1.5", "1,5", "1.299,90", "1,299.90", "$5", "1e5", "1e400", "1e39", ".", "0x1", "inf", "nan",
    "1_000", "9223372036854775807", "9223372036854775808", "2026-11-13", "13.11.2026", "2026-02-30",
    "2026-11-13T25:00", "2026-11-13 10:00:00", "11/13/2026", "20261113", "10:00", "٣",
)  # fmt: skip


def unread(ways: Ways, values: Mapping[str, object]) -> str:
    tensors = {name: as_requested(SCHEMA[name], value) for name, value in values.items()}
    return ways.served.signatures["unread"](**tensors)["columns"].numpy()[0].decode()

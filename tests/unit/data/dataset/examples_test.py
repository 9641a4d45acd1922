"""Examples read with NumPy are what TensorFlow's own parser and protobuf read."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data.dataset.examples import ExampleReader, NotAnExampleError
from pipeline.data.dataset.tfrecord import varint
from pipeline.data.reading.parsing import parsing_spec
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import serialize

SCHEMA = Schema(
    name="all",
    features=(
        Numeric(name="x", missing="mark"),
        Tensor(name="matrix", dimensions=(2, 3)),
        Categorical(name="colour", missing="default", default="größe"),
        Categorical(name="code", encoding="integer", size=1 << 30),
        Tokens(name="tokens", length=5, vocabulary_size=40_000),
        Text(name="a text whose name is long", length=3, buckets=10),
        Label(name="y", classes=("no", "yes")),
    ),
)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300)
FLOATS = st.floats(width=32)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, object]:
    row = {
        "x": draw(FLOATS),
        "matrix": draw(st.lists(FLOATS, min_size=6, max_size=6)),
        "colour": draw(st.binary(max_size=20) | st.binary(min_size=120, max_size=140)),
        "code": draw(INTEGERS),
        "tokens": draw(st.lists(INTEGERS, min_size=5, max_size=5)),
        "a text whose name is long": draw(st.text(max_size=200)),
        "y": draw(st.integers(0, 1)),
    }
    for name in draw(st.sets(st.sampled_from(["x", "colour"]), max_size=1)):
        del row[name]
    return row


def extended(record: bytes, extra: Mapping[str, int]) -> bytes:
    """The record with more features, which no schema has."""
    example = tf.train.Example.FromString(record)
    for name, value in extra.items():
        example.features.feature[name].int64_list.value.append(value)
    return example.SerializeToString()


def by_tensorflow(records: Sequence[bytes]) -> dict[str, np.ndarray]:
    return {
        name: each.numpy()
        for name, each in tf.io.parse_example(tf.constant(records, tf.string), parsing_spec(SCHEMA)).items()
    }


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(found[name], values, err_msg=name)


# Names that the schema does not have: a second "x" of another type would be refused.
OTHERS = st.text(max_size=3).filter(lambda name: name not in {"x", "y"})


@settings(max_examples=30, deadline=None)  # each calls TensorFlow
@given(st.lists(st.tuples(rows(), st.dictionaries(OTHERS, INTEGERS, max_size=1)), max_size=9))
def test_records_are_what_tensorflow_parses(drawn):
    records = [extended(serialize(SCHEMA, row), extra) for row, extra in drawn]
    reader = ExampleReader(SCHEMA)
    expected = by_tensorflow(records)
    assert_same(reader.read(records), expected)
    assert_same(reader.read(records), expected)  # with what was learned of them
    for number, record in enumerate(records):  # each by itself
        assert_same(
            reader.read([record]), {name: each[number : number + 1] for name, each in expected.items()}
        )


def row_of(number: int) -> dict[str, object]:
    return {
        "x": number / 3,
        "matrix": [float(number)] * 6,
        "colour": f"c{number}",
        "code": number,
        "tokens": [number] * 5,
        "a text whose name is long": "word " * number,
        "y": number % 2,
    }


def cut_everywhere(record: bytes) -> list[bytes]:
    return [record[:size] for size in range(len(record))]


def flipped_everywhere(record: bytes) -> list[bytes]:
    return [
        record[:at] + bytes([record[at] ^ 1 << bit]) + record[at + 1 :]
        for at in range(len(record))
        for bit in (0, 2, 7)
    ]


@pytest.mark.parametrize("damaged", [cut_everywhere, flipped_everywhere])
def test_a_damaged_record_is_refused_or_read_as_protobuf_reads_it(damaged):
    """Among sound ones, with which it is read in step."""
    sound = [serialize(SCHEMA, row_of(number)) for number in (3, 4)]
    reader = ExampleReader(SCHEMA)
    for record in damaged(sound[0]):
        expected = by_protobuf(record)
        if expected is None:
            with pytest.raises(NotAnExampleError) as refused:
                reader.read([sound[0], record, sound[1]])
            assert refused.value.record == 1
        else:
            found = reader.read([sound[0], record, sound[1]])
            assert_same({name: each[1:2] for name, each in found.items()}, expected)


def by_protobuf(record: bytes) -> dict[str, np.ndarray] | None:
    """The features [1, *shape], or None where they are none of the schema."""
    try:
        example = tf.train.Example.FromString(record)
    except Exception:  # protobuf's DecodeError, wherever the installed version has it
        return None
    found = {}
    for feature in SCHEMA.features:
        value = example.features.feature[feature.name]
        kind = value.WhichOneof("kind")
        values = list(getattr(value, kind).value) if kind else [feature.fill]
        if kind is None and isinstance(feature.fill, str):
            values = [feature.fill.encode()]
        if (
            values == [None]
            or (kind and kind != f"{feature.wire}_list")
            or len(values) != math.prod(feature.shape)
        ):
            return None
        dtype = {"float": np.float32, "int64": np.int64, "bytes": object}[feature.wire]
        found[feature.name] = np.array(values, dtype).reshape(1, *feature.shape)
    return found


def example(features: Mapping[str, bytes], more: bytes = b"") -> bytes:
    """An Example of serialized Features, and `more` behind its last entry."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(content)) + content

    entries = [field(1, field(1, name.encode()) + field(2, value)) for name, value in features.items()]
    return field(1, b"".join(entries) + more)


ONE = Schema(name="one", features=(Label(name="y", classes=("no", "yes")),))
YES = bytes.fromhex("1a030a0101")


def test_what_nobody_asks_for_is_passed_by_in_step_and_alone():
    """As TensorFlow's parser does; protobuf would refuse it."""
    records = [example({"other": bytes.fromhex("0a040a807a7a"), "y": YES})] * 3
    parsed = tf.io.parse_example(tf.constant(records), parsing_spec(ONE))["y"].numpy().tolist()
    assert parsed == [1, 1, 1]
    for some in (records, records[:1]):
        assert ExampleReader(ONE).read(some)["y"].tolist() == parsed[: len(some)]


@pytest.mark.parametrize(
    "more",
    [
        *("0001", "808080800101", "888080801001", "888080800001", "88808080800001", "faffffff0f00"),
        *("f8ffffff1f00", "0b0c", "13080114", "1b23241c", "1b1b0d000000001c1c", "1b", "1b24", "1c", "0304"),
        *("0e", "0f", "0d000000", "1b0801"),
    ],
)
def test_unknown_fields_are_skipped_or_refused_as_protobuf_does(more: str):
    record = example({"y": YES}, bytes.fromhex(more))
    try:
        label = tf.train.Example.FromString(record).features.feature["y"].int64_list.value[0]
    except Exception:  # protobuf's DecodeError, wherever the installed version has it
        with pytest.raises(NotAnExampleError, match=r"it is no tf\.train\.Example"):
            ExampleReader(ONE).read([record])
    else:
        assert ExampleReader(ONE).read([record])["y"].tolist() == [label]


def test_numbers_that_are_not_packed_are_read():
    """protobuf's older writers give each number of a list its own tag."""
    packed, unpacked = b"\x1a\x04\x0a\x02\x05\x06", b"\x1a\x04\x08\x05\x08\x06"
    schema = Schema(
        name="n",
        features=(Tokens(name="t", length=2, vocabulary_size=10), Label(name="y", task="regression")),
    )

    def record(tokens: bytes) -> bytes:
        return example({"t": tokens, "y": b"\x12\x06\x0a\x04\x00\x00\x80\x3f"})

    found = ExampleReader(schema).read([record(packed), record(packed), record(unpacked)])
    assert found["t"].tolist() == [[5, 6]] * 3
    assert found["y"].tolist() == [1.0] * 3


def test_a_record_without_a_value_is_named():
    records = [serialize(SCHEMA, row_of(number)) for number in range(3)]
    records[1] = serialize(SCHEMA, {name: value for name, value in row_of(1).items() if name != "code"})
    with pytest.raises(NotAnExampleError, match="it has no feature 'code'") as refused:
        ExampleReader(SCHEMA).read(records)
    assert refused.value.record == 1

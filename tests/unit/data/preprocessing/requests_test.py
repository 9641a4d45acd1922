"""Raw strings at a serving signature are cleaned as the conversion cleaned the stored ones."""

import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from beam_jobs.cells import text
from beam_jobs.cells.typed import parse
from pipeline.data.preprocessing.numbers import texts_of
from pipeline.data.preprocessing.requests import clean_requests, serialize
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Categorical, Datetime, Image, Label, Numeric, Text
from pipeline.data.schema.schema import Schema

WORK = Categorical(
    name="work",
    missing="mark",
    clean=Clean(strip=" .]^-\\", null_markers=("?", ""), aliases={"priv": "Private"}),
)
SCHEMA = Schema(name="s", features=(WORK, Text(name="t"), Label(name="y", classes=("a", "b"))))
RAW = ["Private", " priv. ", "?", "", " ? ", "a.b", "]^-\\x", "x-^]", "é ", "priv priv"]
CLEANED = ["Private", "Private", "", "", "", "a.b", "x", "x", "é", "priv priv"]


def cleaned(values: list[str]) -> list[str]:
    outputs = clean_requests({"work": tf.constant(values), "t": tf.constant(values)}, SCHEMA)
    return [value.decode() for value in outputs["work"].numpy()]


def test_strip_then_null_markers_then_aliases():
    assert cleaned(RAW) == CLEANED


def test_no_character_to_strip_has_a_meaning_of_its_own():
    rules = Clean(strip="[:alpha^-]\\é", null_markers=())
    schema = Schema(name="s", features=(Text(name="t", clean=rules),))
    served = clean_requests({"t": tf.constant(["[:alphabet:]", "é^x-\\"])}, schema)["t"].numpy()
    assert [value.decode() for value in served] == ["bet", "x"]


def test_a_number_that_a_request_lacks_is_the_default():
    schema = Schema(name="s", features=(Numeric(name="n", missing="default", default=7),))
    assert clean_requests({"n": tf.constant([math.nan, 1.0])}, schema)["n"].numpy().tolist() == [7.0, 1.0]


def test_a_stored_nan_of_money_is_the_default_less_the_offset():
    feature = Numeric(name="n", missing="default", default=7, offset=2, clean=Clean(remove=("$",)))
    schema = Schema(name="s", features=(feature,))
    for absent in (tf.constant([math.nan]), tf.constant([""])):
        assert clean_requests({"n": absent}, schema)["n"].numpy().tolist() == [5.0]


def test_features_that_are_no_strings_pass_unchanged():
    number = tf.constant([1.0])
    features = {"work": tf.constant(["x"]), "t": tf.constant(["x"]), "n": number}
    assert clean_requests(features, SCHEMA)["n"] is number


ALPHABET = " \t.?^[:]-\\aé€"


@settings(max_examples=60)
@given(
    values=st.lists(st.text(ALPHABET, max_size=6), min_size=1, max_size=8),
    strip=st.text(ALPHABET, max_size=4),
    markers=st.lists(st.text(ALPHABET, max_size=2), max_size=2),
    aliases=st.dictionaries(
        st.text(ALPHABET, max_size=2), st.text("xyz", min_size=1, max_size=2), max_size=2
    ),
)
def test_serving_cleans_as_the_conversion_does_and_leaves_what_that_has_stored(
    values, strip, markers, aliases
):
    assume("" in markers or "" not in aliases)  # refused
    rules = Clean(strip=strip, null_markers=tuple(markers), aliases=aliases)
    stored = text.clean_text(pa.array(values), rules).fill_null("").to_pylist()
    schema = Schema(name="s", features=(Text(name="t", missing="mark", clean=rules),))
    for texts in (values, stored):
        served = clean_requests({"t": tf.constant(texts)}, schema)["t"].numpy()
        assert [value.decode() for value in served] == stored


@pytest.mark.parametrize("number", ["float32", "int64"])
@settings(max_examples=20)
@given(values=st.lists(st.sampled_from([-999, 9999, 0, 7, -9990, 0.1]), min_size=1, max_size=9))
def test_a_sentinel_is_missing_in_the_conversion_and_in_a_request(number, values):
    fill = {"missing": "mark"} if number == "float32" else {"missing": "default", "default": -1}
    feature = Numeric(
        name="t", number=number, clean=Clean(null_markers=("", "-999", "9999.0", "0.1")), **fill
    )
    dtype = pa.float64() if number == "float32" else pa.int64()
    values = values if number == "float32" else [int(value) for value in values]
    schema = Schema(name="s", features=(feature,))
    served = clean_requests({"t": tf.constant(values, number)}, schema)["t"].numpy()
    for cells in (pa.array(list(map(str, values))), pa.array(values, dtype)):
        stored = parse(feature, cells).values.fill_null(feature.fill).to_numpy()
        np.testing.assert_array_equal(stored.astype(number), served)


def test_a_null_marker_of_a_date_is_no_stored_moment():
    feature = Datetime(name="t", format="%Y%m%d", missing="mark", clean=Clean(null_markers=("", "0")))
    stored = tf.constant([0, 86_400_000_000], tf.int64)  # 1970-01-01 is 0
    cleaned = clean_requests({"t": stored}, Schema(name="s", features=(feature,)))
    np.testing.assert_array_equal(cleaned["t"], stored)


MONEY = Clean(strip=" ", null_markers=("", "n/a", "-999"), remove=("CHF", " ", "'", "%"), decimal=",")


@settings(max_examples=40)
@example(values=["0E0000", "1e-99999", "3e00001", "1e99999"])
@given(values=st.lists(st.text("0123456789,'%-+eE. CHF", max_size=9), min_size=1, max_size=20))
def test_money_is_the_same_number_in_the_conversion_and_in_a_request(values):
    values = [*values, "1'23", "12'3456", "CHF 1'234,50", "12%", "n/a", "-999,0", ",5", "5,", "1e400"]
    feature = Numeric(name="t", missing="mark", clean=MONEY)
    column = parse(feature, pa.array(values))
    stored = column.values.fill_null(np.nan).to_numpy().copy()
    stored[list(column.problems)] = np.nan
    served = clean_requests({"t": tf.constant(values)}, Schema(name="s", features=(feature,)))["t"].numpy()
    np.testing.assert_array_equal(stored.astype("float32"), served)
    np.testing.assert_allclose(served[-7:-5], [1234.5, 12.0])


# TensorFlow takes subnormal numbers for zeros.
FINITE = st.floats(width=32, allow_infinity=False, allow_subnormal=False)


@settings(max_examples=20)
@given(numbers=st.lists(FINITE, min_size=1, max_size=20))
def test_stored_numbers_are_spelled_as_texts_that_are_read_as_them(numbers):
    feature = Numeric(name="t", missing="mark", clean=Clean(remove=(".", "EUR"), decimal=","))
    texts = texts_of(feature, np.array(numbers, "float32"))
    served = clean_requests({"t": tf.constant(texts)}, Schema(name="s", features=(feature,)))["t"].numpy()
    np.testing.assert_array_equal(served, np.array(numbers, "float32"))


def test_zeros_at_the_end_of_a_file_are_kept():
    data = b"a file\x80\0\0"
    schema = Schema(name="pictures", features=(Image(name="image"),))
    (record,) = serialize({"image": np.array([data], object)}, schema)
    (kept,) = tf.train.Example.FromString(record).features.feature["image"].bytes_list.value
    assert kept == data

"""Raw strings at a serving signature are cleaned as the conversion cleaned the stored ones."""

import pyarrow as pa
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.cells import cleaning as beam_clean
from pipeline.data.preprocessing.request_cleaning import clean_strings
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.kinds import Categorical, Label, Text
from pipeline.data.schema.schema import Schema

WORK = Categorical(
    name="work",
    missing="mark",
    clean=Clean(strip=" .]^-\\", null_markers=("?", ""), aliases={"priv": "Private", "Private": "State"}),
)
SCHEMA = Schema(name="s", features=(WORK, Text(name="t"), Label(name="y", classes=("a", "b"))))
RAW = ["Private", " priv. ", "?", "", " ? ", "a.b", "]^-\\x", "x-^]", "é ", "priv priv"]
CLEANED = ["State", "Private", "", "", "", "a.b", "x", "x", "é", "priv priv"]


def cleaned(values: list[str]) -> list[str]:
    outputs = clean_strings({"work": tf.constant(values), "t": tf.constant(values)}, SCHEMA)
    return [value.decode() for value in outputs["work"].numpy()]


def test_strip_then_null_markers_then_aliases_once():
    assert cleaned(RAW) == CLEANED


def test_features_that_are_no_strings_pass_unchanged():
    number = tf.constant([1.0])
    features = {"work": tf.constant(["x"]), "t": tf.constant(["x"]), "n": number}
    assert clean_strings(features, SCHEMA)["n"] is number


ALPHABET = " \t.?^]-\\aé€"


@settings(max_examples=60)
@given(
    values=st.lists(st.text(ALPHABET, max_size=6), min_size=1, max_size=8),
    strip=st.text(ALPHABET, max_size=4),
    markers=st.lists(st.text(ALPHABET, max_size=2), max_size=2),
    aliases=st.dictionaries(
        st.text(ALPHABET, max_size=2), st.text("abc", min_size=1, max_size=2), max_size=2
    ),
)
def test_serving_cleans_as_the_conversion_does(values, strip, markers, aliases):
    rules = Clean(strip=strip, null_markers=tuple(markers), aliases=aliases)
    stored = beam_clean.clean(pa.array(values), rules).fill_null("").to_pylist()
    schema = Schema(name="s", features=(Text(name="t", missing="mark", clean=rules),))
    served = clean_strings({"t": tf.constant(values)}, schema)["t"].numpy()
    assert [value.decode() for value in served] == stored

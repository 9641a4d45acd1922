"""Raw strings at a serving signature are cleaned as the conversion cleaned the stored ones."""

import tensorflow as tf

from pipeline.data.clean import clean_strings
from pipeline.data.features import Categorical, Clean, Label, Text
from pipeline.data.schema import Schema

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

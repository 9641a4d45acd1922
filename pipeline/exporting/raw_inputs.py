"""Stored features as arguments of the signature `raw`, which takes dates and the like as text."""

import itertools
import keyword
import re
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from pipeline.data.preprocessing.preprocess import BY_TYPE
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema, ascii_words


def raw_inputs(features: Mapping[str, tf.Tensor], schema: Schema) -> dict[str, tf.Tensor]:
    """Returns the arguments of `raw` for `features` as records hold them, each [batch, …]."""
    return {given: _spelled(schema[name], features[name]) for name, given in raw_names(schema).items()}


def _spelled(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    if values.dtype == tf.string or not feature.is_text_in_requests:
        return values
    texts = BY_TYPE.of(feature).spelled(feature, values.numpy())
    return tf.constant(np.array(texts, object), tf.string)


# --- Names of features in `raw`: their own, or ones that TensorFlow accepts.


# The name of a node in a graph of TensorFlow.
_NODE = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def raw_names(schema: Schema) -> dict[str, str]:
    """Returns the name of each input feature in the signature `raw`, by the feature's name, in declared
    order.

    A signature's input becomes a node of a graph and a parameter of a Python function. So a name with a space
    or an umlaut, a Python keyword, and two names that differ only in case are not possible. Such a feature
    gets a name made of its ASCII letters and digits.
    """
    names = [feature.name for feature in schema.inputs]
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if _take(name, taken):
            found[name] = name
    for number, name in enumerate(names, 1):
        if name not in found:
            found[name] = next(given for given in _substitutes(name, number) if _take(given, taken))
    return {name: found[name] for name in names}


def renamed(schema: Schema) -> dict[str, str]:
    """Returns those of `raw_names` that differ from the feature's own name."""
    return {name: given for name, given in raw_names(schema).items() if given != name}


def _take(name: str, taken: set[str]) -> bool:
    """Adds `name` to `taken`; returns False if TensorFlow cannot accept it, or it is taken already."""
    parameter = _parameter(name)
    possible = _NODE.fullmatch(name) and not keyword.iskeyword(parameter) and parameter != "self"
    free = bool(possible) and parameter.lower() not in taken
    taken |= {parameter.lower()} if free else set()
    return free


def _parameter(name: str) -> str:
    """Returns the Python parameter that TensorFlow makes of a name."""
    swapped = "".join(character if character.isalnum() else "_" for character in name)
    return swapped if swapped[:1].isalpha() else f"arg_{swapped}"


def _substitutes(name: str, number: int) -> Iterator[str]:
    """Yields other names for the feature of this number; it never ends."""
    stem = ascii_words(name) or "input"
    yield stem
    for later in itertools.count(number):
        yield f"{stem}_{later}"

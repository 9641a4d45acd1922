"""Groups rows of a holdout by columns: as text for slices, as numbers for clusters."""

import hashlib
from collections.abc import Iterable

import numpy as np

from pipeline.base.errors import unknown_name
from pipeline.data.dataset.blocks import UNKNOWN_VALUE
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.format import MISSING, format_value

OTHER = "(other)"  # stands for a value that is not in the vocabulary, because blocks do not hold the value
_LONGEST = 60  # characters; a cell may hold megabytes, and a NumPy array is as wide as its widest cell
_SHORTENED = 48


def require_columns(names: Iterable[str], schema: Schema, *, key: str) -> None:
    """Raises InputError unless each name of the setting `key` is a feature with one value in each row."""
    possible = [each.name for each in schema.features if not each.shape and not isinstance(each, Image)]
    for name in names:
        if name not in possible:
            expected = "a feature of the holdout with one value a row:"
            raise unknown_name(
                key, name, possible, expected=expected, otherwise="Name one of these features."
            )


def texts(feature: Feature, values: np.ndarray) -> np.ndarray:
    """Formats values [n] of records as text [n]: the text of the raw data, MISSING, or OTHER.

    A text of more than 60 characters is shortened, and ends with 8 digits of its SHA-256.
    """
    distinct, codes = np.unique(values, return_inverse=True)
    formatted = [_format(feature, distinct[at, ...]) for at in range(len(distinct))]
    return np.array(formatted, str)[codes]


def clusters(values: np.ndarray) -> np.ndarray:
    """Maps texts [n] to int64 [n]: the same number for the same text.

    Each missing value gets a number of its own, because such rows need not belong together.
    """
    distinct, codes = np.unique(values, return_inverse=True)
    missing = np.flatnonzero(values == MISSING)
    codes = codes.astype(np.int64)
    codes[missing] = len(distinct) + np.arange(len(missing))
    return codes


def _format(feature: Feature, value: np.ndarray) -> str:
    text = format_value(feature, value)
    if text == UNKNOWN_VALUE:
        return OTHER
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_SHORTENED]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"

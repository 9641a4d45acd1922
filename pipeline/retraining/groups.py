"""Columns of a holdout by which its rows are grouped: as text for slices, as numbers for clusters."""

import hashlib
from collections.abc import Iterable

import numpy as np

from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.dataset.blocks import UNKNOWN_VALUE
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.format import MISSING, format_value

OTHER = "(other)"  # a value that the vocabulary does not list: blocks hold no more of it
_LONGEST = 60  # characters of a text; a cell may hold megabytes, and a NumPy array is as wide as its widest
_SHORTENED = 48


def require_columns(names: Iterable[str], schema: Schema, *, told: str) -> None:
    """Raises InputError unless each name is a feature of one value a row. `told`: what asks for it."""
    possible = [feature.name for feature in schema.features if _is_possible(feature)]
    for name in names:
        if name not in possible:
            raise InputError(
                told,
                received=repr(name),
                expected=f"a feature of the holdout with one value a row: {', '.join(possible)}",
                action=did_you_mean(name, possible, otherwise="Name one of these features."),
            )


def texts(feature: Feature, values: np.ndarray) -> np.ndarray:
    """Values [n] as records hold them → text [n]: that of the raw data, MISSING, or OTHER.

    A text of more than 60 characters is shortened, and ends with 8 digits of its SHA-256.
    """
    distinct, codes = np.unique(values, return_inverse=True)
    shown = [_shown(feature, distinct[at, ...]) for at in range(len(distinct))]
    return np.array(shown, str)[codes]


def clusters(values: np.ndarray) -> np.ndarray:
    """Texts [n] → int64 [n]: the same number for the same text.

    Each missing value has a number of its own: nothing says that two such rows belong together.
    """
    distinct, codes = np.unique(values, return_inverse=True)
    missing = np.flatnonzero(values == MISSING)
    codes = codes.astype(np.int64)
    codes[missing] = len(distinct) + np.arange(len(missing))
    return codes


def _is_possible(feature: Feature) -> bool:
    return not feature.shape and not isinstance(feature, Image)


def _shown(feature: Feature, value: np.ndarray) -> str:
    text = format_value(feature, value)
    if text == UNKNOWN_VALUE:
        return OTHER
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_SHORTENED]}… {hashlib.sha256(text.encode()).hexdigest()[:8]}"

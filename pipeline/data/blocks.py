"""Layout `blocks`: one `tf.train.Example` holds a block of rows of fixed width, nothing in them to parse.

A row is a packed little-endian record of the schema's features, in the schema's order (`row_dtype`), each of
whole words of 2 bytes, so that a row is an array of uint16, too, and tokens need no filling. A block is an
ordinary Example with these features:

  rows     bytes: `Geometry.rows` rows, one after the other
  count    int64: how many of them, from the first, are rows of the data; the others repeat them to fill up
  before, after   bytes: zeros that nobody reads

Because of the zeros every block of a schema has the same size, and its rows lie at the same place in it; in a
file both are at multiples of a row's width, so that a shard can also be mapped into memory as one array of
rows (`block_frame.py`). The pure function of the schema that writer and readers share; standard library and
numpy only.
"""

import dataclasses
import math

import numpy as np

from pipeline.data.errors import InputError
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical, Image, Label, Text, Tokens
from pipeline.data.schema import Schema

ROWS, COUNT, BEFORE, AFTER = "rows", "count", "before", "after"

WORD_BYTES = 2
MAXIMUM_ROWS = 1024  # in a block
MAXIMUM_BYTES = 512 << 10  # 512 KiB of rows in a block, unless they are large
MINIMUM_ROWS = 8  # as what fills a block up takes as much as one or two of its rows

# What stands for a value that is not an index into its listed vocabulary, or not in its integer range.
UNKNOWN, MISSING = -1, -2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """`rows` of `width` bytes in a block, `payload` bytes in all."""

    rows: int
    width: int

    @property
    def payload(self) -> int:
        return self.rows * self.width


def geometry(schema: Schema) -> Geometry:
    width = row_dtype(schema).itemsize
    return Geometry(rows=max(MINIMUM_ROWS, min(MAXIMUM_ROWS, MAXIMUM_BYTES // width)), width=width)


def row_dtype(schema: Schema) -> np.dtype:
    """Structured dtype of one row; raises InputError if a feature has no fixed width."""
    return np.dtype([(feature.name, *_field(feature)) for feature in schema.features])


def is_index(feature: Feature) -> bool:
    """Whether a value is stored as its index in the feature's listed vocabulary."""
    return isinstance(feature, Categorical) and bool(feature.vocabulary)


def _field(feature: Feature) -> tuple[str, tuple[int, ...]]:
    """Type and shape, as narrow as the values allow: bytes that are not written need not be read."""
    if is_index(feature):
        return "<i4", ()
    if feature.dtype == "string":
        raise _no_fixed_width(feature)
    largest = _largest(feature)
    if largest < 1 << 16 and isinstance(feature, Tokens):
        return "<u2", feature.shape
    if largest < 1 << 31:
        return "<i4", feature.shape
    return {"float32": "<f4", "int64": "<i8"}[feature.dtype], feature.shape


def _largest(feature: Feature) -> float:
    """The largest integer that the feature can hold; infinite where nothing declares one."""
    if isinstance(feature, Tokens):
        return feature.vocabulary_size - 1
    if isinstance(feature, Categorical) and feature.encoding == "integer":
        return feature.size - 1
    if isinstance(feature, Label) and feature.classes:
        return len(feature.classes) - 1
    return math.inf


def _no_fixed_width(feature: Feature) -> InputError:
    if isinstance(feature, Image | Text):
        action = "Use --layout=rows" + (
            "." if isinstance(feature, Image) else ", or tokenise it as you convert."
        )
    else:
        action = "List its values in 'vocabulary', make it of encoding 'integer', or use --layout=rows."
    return InputError(
        f"schema feature '{feature.name}'",
        received=f"a {feature.kind} of no fixed width, with --layout=blocks",
        expected="numbers, labels, tokens, tensors, and categoricals that are integers or list a vocabulary",
        action=action,
    )

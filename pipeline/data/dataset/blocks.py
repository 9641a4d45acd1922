"""Layout `blocks`: one `tf.train.Example` holds a block of rows of fixed width, nothing in them to parse.

A row is a packed little-endian record of the schema's features, in the schema's order (`row_dtype`). Each
feature takes whole words of 2 bytes, so a row is also an array of uint16, and tokens need no padding. A block
is an ordinary Example with these features:

  rows     bytes: `Geometry.rows` rows, one after the other
  count    int64: how many of them, from the first, are rows of the data; the rest repeat these
  before, after   bytes: zeros that nobody reads

The zeros give every block of a schema the same size, and its rows the same offset. In a file both are
multiples of a row's width, so a shard can be mapped into memory as one array of rows (`block_frame.py`).
Writer and readers share these functions of the schema; standard library and numpy only.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from pipeline.data.errors import InputError
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema

ROWS, COUNT, BEFORE, AFTER = "rows", "count", "before", "after"

WORD_BYTES = 2
_MAXIMUM_ROWS = 1024  # in a block
_MAXIMUM_BYTES = 512 << 10  # 512 KiB of rows in a block, unless they are large
_MINIMUM_ROWS = 8  # because the zeros of a block take as much as one or two of its rows

# What a row holds for a value outside of the listed vocabulary or integer range, and for a missing value.
UNKNOWN, MISSING = -1, -2
UNKNOWN_VALUE = "\ufffd"  # in place of a string that the vocabulary does not list: blocks hold only UNKNOWN


@dataclasses.dataclass(frozen=True, kw_only=True)
class Geometry:
    """`rows` of `width` bytes in a block, `payload` bytes in all."""

    rows: int
    width: int

    @property
    def payload(self) -> int:
        return self.rows * self.width


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
    """How a row holds one feature: as narrow as its values allow, since bytes not written need not be read.

    If there is a `vocabulary`, the value is an index into it, UNKNOWN or MISSING. If there is a `size`, an
    integer outside of 0 … size-1 is stored as UNKNOWN.
    """

    dtype: str  # NumPy's
    vocabulary: tuple[str, ...] = ()
    may_be_unknown: bool = True  # whether a value may be outside of the vocabulary
    size: int | None = None


def geometry(schema: Schema) -> Geometry:
    """Rows in a block of this schema; raises InputError if a feature has no fixed width."""
    width = row_dtype(schema).itemsize
    return Geometry(rows=max(_MINIMUM_ROWS, min(_MAXIMUM_ROWS, _MAXIMUM_BYTES // width)), width=width)


def row_dtype(schema: Schema) -> np.dtype:
    """Structured dtype of one row; raises InputError if a feature has no fixed width."""
    return np.dtype([(feature.name, field(feature).dtype, feature.shape) for feature in schema.features])


def fields(schema: Schema) -> dict[str, Field]:
    """How a row holds each feature, by name; raises InputError if one has no fixed width."""
    return {feature.name: field(feature) for feature in schema.features}


def field(feature: Feature) -> Field:
    """How a row holds the feature; raises InputError if it has no fixed width."""
    return _OF_KIND.of(feature)(feature)


_NUMBER = {"float32": Field(dtype="<f4"), "int64": Field(dtype="<i8")}


def _number(feature: Feature) -> Field:
    return _NUMBER[feature.dtype]


def _categorical(feature: Categorical) -> Field:
    if feature.vocabulary:
        return Field(dtype="<i4", vocabulary=feature.vocabulary, may_be_unknown=feature.unknown == "oov")
    if feature.encoding == "integer":
        return Field(dtype=_narrowest(feature.size - 1), size=feature.size)
    raise _no_fixed_width(
        feature, "List its values in 'vocabulary', make it of encoding 'integer', or use --layout=rows."
    )


def _label(feature: Label) -> Field:
    return Field(dtype=_narrowest(len(feature.classes) - 1)) if feature.classes else _number(feature)


def _tokens(feature: Tokens) -> Field:
    largest = feature.vocabulary_size - 1
    return Field(dtype="<u2" if largest < 1 << 16 else _narrowest(largest))


def _image(feature: Image) -> Field:
    raise _no_fixed_width(feature, "Use --layout=rows.")


def _text(feature: Text) -> Field:
    raise _no_fixed_width(feature, "Use --layout=rows, or tokenise it as you convert.")


def _narrowest(largest: int) -> str:
    """Of integers up to `largest`, and the negative ones that stand for others."""
    return "<i4" if largest < 1 << 31 else "<i8"


def _no_fixed_width(feature: Feature, action: str) -> InputError:
    return InputError(
        f"schema feature '{feature.name}'",
        received=f"a {feature.kind} of no fixed width, with --layout=blocks",
        expected="numbers, labels, tokens, tensors, and categoricals that are integers or list a vocabulary",
        action=action,
    )


_OF_KIND: KindTable[Callable[[Feature], Field]] = KindTable(
    where=__name__,
    tells="how a row of a block holds a feature",
    entry="a function of the feature to its Field; it raises InputError if there is no fixed width",
    entries={
        Numeric: _number,
        Categorical: _categorical,
        Label: _label,
        Image: _image,
        Text: _text,
        Tokens: _tokens,
        Tensor: _number,
        Datetime: _number,
    },
)

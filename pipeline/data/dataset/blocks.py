"""Layout `blocks`: one `tf.train.Example` holds a block of rows of fixed width, which need no parsing.

A row is a packed little-endian record of the schema's features, in the schema's order (`row_dtype`). Each
feature takes whole words of 2 bytes, so a row is also an array of uint16, and tokens need no padding. A block
is an ordinary Example with these features:

  rows     bytes: `Geometry.rows` rows, one after the other
  count    int64: how many of them, from the first, are rows of the data; the rest repeat these
  before, after   bytes: zeros that nobody reads

The zeros give every block of a schema the same size, and its rows the same offset. In a file both are
multiples of a row's width, so a shard can be mapped into memory as one array of rows (`BlockFrame`).
Writer and readers share these functions of the schema; standard library and numpy only.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from pipeline.base.errors import InputError
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES, entry_head, example_head
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema

ROWS, COUNT, BEFORE, AFTER = "rows", "count", "before", "after"

WORD_BYTES = 2
_MAXIMUM_ROWS = 1024  # rows in a block
_MAXIMUM_BYTES = 512 << 10  # 512 KiB of rows in a block; large rows may take more
_MINIMUM_ROWS = 8  # fewer would waste space: the zeros of a block take as much as one or two of its rows

# What a row holds for a value outside of the listed vocabulary or integer range, and for a missing value.
UNKNOWN, MISSING = -1, -2
# Stands in place of a string that the vocabulary does not list: blocks hold only UNKNOWN.
UNKNOWN_VALUE = "\ufffd"


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
    """How a row holds one feature: as narrow as its values allow, because fewer bytes are faster to read.

    If there is a `vocabulary`, the value is an index into it, UNKNOWN or MISSING. If there is a `size`, an
    integer outside of 0 … size-1 is stored as UNKNOWN.
    """

    dtype: str  # dtype of NumPy
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
    return _BY_TYPE.of(feature)(feature)


def values_by_index(feature: Feature, vocabulary: Sequence[str]) -> list[str]:
    """The values that a block's indices into `vocabulary` stand for, from `MISSING` on."""
    missing = "" if feature.fill is None else str(feature.fill)
    return [missing, UNKNOWN_VALUE, *vocabulary]


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


def _categories(feature: Categories) -> Field:
    if feature.vocabulary:
        return Field(dtype="<i4", vocabulary=feature.vocabulary, may_be_unknown=feature.unknown == "oov")
    raise _no_fixed_width(feature, "List its values in 'vocabulary', or use --layout=rows.")


def _label(feature: Label) -> Field:
    if feature.is_ranking:
        return Field(dtype="<i4")
    if feature.shape:
        return Field(dtype="<u2")  # 0 or 1 of each class
    return Field(dtype=_narrowest(len(feature.classes) - 1)) if feature.classes else _number(feature)


def _tokens(feature: Tokens) -> Field:
    largest = feature.vocabulary_size - 1
    return Field(dtype="<u2" if largest < 1 << 16 else _narrowest(largest))


def _image(feature: Image) -> Field:
    raise _no_fixed_width(feature, "Use --layout=rows.")


def _text(feature: Text) -> Field:
    raise _no_fixed_width(feature, "Use --layout=rows, or tokenise it as you convert.")


def _narrowest(largest: int) -> str:
    """The dtype that holds integers up to `largest`, and the negative ones that stand for other values."""
    return "<i4" if largest < 1 << 31 else "<i8"


def _no_fixed_width(feature: Feature, action: str) -> InputError:
    return InputError(
        f"schema feature '{feature.name}'",
        received=f"a {feature.kind} of no fixed width, with --layout=blocks",
        expected="numbers, labels, tokens, tensors, and categoricals that are integers or list a vocabulary",
        action=action,
    )


_BY_TYPE: FeatureTypeTable[Callable[[Feature], Field]] = FeatureTypeTable(
    where=__name__,
    question="how a row of a block holds a feature",
    entry="a function of the feature to its Field; it raises InputError if there is no fixed width",
    entries={
        Numeric: _number,
        Categorical: _categorical,
        Categories: _categories,
        Label: _label,
        Image: _image,
        Text: _text,
        Tokens: _tokens,
        Tensor: _number,
        Datetime: _number,
    },
)


# --- The bytes around the rows of a block's Example: all but the count of rows follow from the schema.

COUNT_BYTES = 2  # a varint padded to this size holds up to 2**14 - 1
# The most by which an entry's head grows with its payload: four varints, from 1 byte to 5 each.
_GROWTH_BYTES = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockFrame:
    """A serialized block is `head`, the `payload` bytes of the rows, and `tail`."""

    head: bytes  # holds the count, and ends with the rows' own head
    count_at: int  # offset of the count in the block
    payload: int  # bytes of rows
    tail: bytes

    @property
    def rows_at(self) -> int:
        """Offset of the rows in the block."""
        return len(self.head)

    @property
    def size(self) -> int:
        """Bytes of a serialized block."""
        return len(self.head) + self.payload + len(self.tail)


def frame_of_schema(schema: Schema) -> BlockFrame:
    """The frame of the schema's blocks, padded so that blocks and rows start at multiples of a row."""
    return _frame(geometry(schema))


@functools.lru_cache
def _frame(geometry: Geometry) -> BlockFrame:
    count = entry_head(COUNT.encode(), "int64", COUNT_BYTES) + bytes(COUNT_BYTES)
    rows_head = entry_head(ROWS.encode(), "bytes", geometry.payload)
    tail = _padding(AFTER, FRAME_BYTES - HEADER_BYTES, geometry.width)
    # The Example's head holds its size, which depends on the padding: try each length of that head.
    for head_bytes in itertools.count(2):
        others = HEADER_BYTES + head_bytes + len(count) + len(rows_head)
        inner = _padding(BEFORE, others, geometry.width) + count + rows_head
        head = example_head(len(inner) + geometry.payload + len(tail))
        if len(head) == head_bytes:
            count_at = len(head) + len(inner) - len(rows_head) - COUNT_BYTES
            return BlockFrame(head=head + inner, count_at=count_at, payload=geometry.payload, tail=tail)
    raise AssertionError("unreachable")


def _padding(name: str, others: int, width: int) -> bytes:
    """A map entry of zeros that fills up `others` bytes to a multiple of `width`."""
    shortest = -(len(entry_head(name.encode(), "bytes", 0)) + others) % width
    for most in itertools.count(shortest, width):
        for zeros in range(max(0, most - _GROWTH_BYTES), most + 1):
            head = entry_head(name.encode(), "bytes", zeros)
            if (len(head) + zeros + others) % width == 0:
                return head + bytes(zeros)
    raise AssertionError("unreachable")

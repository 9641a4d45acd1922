"""Accumulators as bytes, the same for the same rows: those of one split, and those of all splits in
`accumulators.bin`.

The table of order hashes by which numbers were sampled (`samples.py`) comes first. Each feature of the schema
follows, in order: a byte for the kind of accumulator, the numbers of present and missing values as varints,
and the fields in `_FORMS`. Reading runs no code, and takes little more memory than the accumulators.
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipeline.base.errors import DamagedError
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulators, samples
from pipeline.data.statistics.accumulators import (
    Classes,
    ClassSets,
    Gathered,
    Items,
    Lengths,
    Numbers,
    Values,
    gathered_of,
)
from pipeline.data.statistics.samples import Cursor, signed, text, varint

_RANGE = struct.Struct("<dd")


def dumps_accumulator(gathered: Sequence[Gathered]) -> bytes:
    """The accumulators of a schema's features, in its order, as bytes."""
    table = samples.table_of(each.sample for each in gathered if isinstance(each, Numbers))
    parts = [samples.table_bytes(table)]
    for each in gathered:
        form = _FORMS[type(each)]
        parts += [bytes([form.number]), varint(each.present), varint(each.missing), form.write(each, table)]
    return b"".join(parts)


def loads_accumulator(content: bytes, schema: Schema) -> list[Gathered]:
    """The inverse of `dumps_accumulator`; raises DamagedError unless that function wrote it, for this
    schema.
    """
    cursor, features = Cursor(content), schema.of_rows.features
    table = samples.read_table(cursor, most=accumulators.SAMPLE_ROWS * len(features))
    gathered = [_read(cursor, feature, table) for feature in features]
    cursor.end()
    if len({each.present + each.missing for each in gathered}) != 1:
        raise DamagedError("features with different numbers of rows")
    return gathered


def _read(cursor: Cursor, feature: Feature, table: np.ndarray) -> Gathered:
    empty = gathered_of(feature)
    form = _FORMS[type(empty)]
    if cursor.varint() != form.number:
        raise DamagedError(f"other measures of feature '{feature.name}'")
    empty.present, empty.missing = cursor.varint(), cursor.varint()
    form.read(empty, cursor, feature, table)
    return empty


def _write_numbers(numbers: Numbers, table: np.ndarray) -> bytes:
    return b"".join(
        (
            varint(numbers.zeros),
            signed(numbers.scaled),
            signed(numbers.scaled_squares),
            _RANGE.pack(numbers.minimum, numbers.maximum),
            samples.sample_bytes(numbers.sample, table),
        )
    )


def _read_numbers(numbers: Numbers, cursor: Cursor, feature: Feature, table: np.ndarray) -> None:
    numbers.count = numbers.present * math.prod(feature.shape)
    numbers.zeros = cursor.varint(numbers.count)
    numbers.scaled, numbers.scaled_squares = cursor.signed(), cursor.signed()
    numbers.minimum, numbers.maximum = _RANGE.unpack(cursor.take(_RANGE.size))
    size = min(numbers.count, accumulators.SAMPLE_ROWS)
    numbers.sample = samples.read_sample(cursor, size, table)
    _check_numbers(numbers)


def _check_numbers(numbers: Numbers) -> None:
    values = numbers.sample["value"]
    is_in_range = not len(values) or numbers.minimum <= values.min() <= values.max() <= numbers.maximum
    is_finite = not len(values) or np.isfinite([numbers.minimum, numbers.maximum]).all()
    # The variance times the square of the count is never below 0, whatever the numbers are.
    if not is_in_range or not is_finite or numbers.count * numbers.scaled_squares < numbers.scaled**2:
        raise DamagedError("sums, ranges and samples that do not have the same numbers")


def _read_lengths(lengths: Lengths, cursor: Cursor, feature: Feature, table: np.ndarray) -> None:
    lengths.bytes = cursor.varint()


def _write_values(values: Values, table: np.ndarray) -> bytes:
    if values.counts is None:
        return varint(values.bytes) + varint(0)
    ranked = (text(value) + varint(count) for value, count in sorted(values.counts.items()))
    return varint(values.bytes) + varint(len(values.counts) + 1) + b"".join(ranked)


def _read_values(values: Values, cursor: Cursor, feature: Feature, table: np.ndarray) -> None:
    _read_items(values, cursor, feature, table)
    if values.counts is not None and sum(values.counts.values()) != values.present:
        raise DamagedError(f"counts of '{feature.name}' that do not fit its values")


def _read_items(values: Values, cursor: Cursor, feature: Feature, table: np.ndarray) -> None:
    values.bytes = cursor.varint()
    distinct = cursor.varint(accumulators.MAXIMUM_DISTINCT + 1) - 1
    if distinct < 0:  # there were too many distinct values to count
        values.counts = None
        return
    pairs = [(cursor.text(), cursor.varint()) for _ in range(distinct)]
    values.counts = dict(pairs)
    if len(values.counts) != distinct:
        raise DamagedError(f"counts of '{feature.name}' that do not fit its values")


def _read_classes(classes: Classes, cursor: Cursor, feature: Label, table: np.ndarray) -> None:
    _read_values(classes, cursor, feature, table)
    _require_known(classes, feature)


def _read_class_sets(classes: ClassSets, cursor: Cursor, feature: Label, table: np.ndarray) -> None:
    _read_items(classes, cursor, feature, table)
    _require_known(classes, feature)
    if max((classes.counts or {}).values(), default=0) > classes.present:
        raise DamagedError(f"more rows of a class of '{feature.name}' than there are")


def _require_known(classes: Classes, feature: Label) -> None:
    if not set(classes.counts or ()) <= {str(index) for index in range(len(feature.classes))}:
        raise DamagedError(f"a class that '{feature.name}' does not have")


class _Form(NamedTuple):
    """The format of one class of accumulator; the number identifies the class."""

    number: int
    write: Callable[[Gathered, np.ndarray], bytes]
    read: Callable[[Gathered, Cursor, Feature, np.ndarray], None]


_FORMS = {
    # The counts of present and missing values are all it has.
    Gathered: _Form(0, lambda *_: b"", lambda *_: None),
    Numbers: _Form(1, _write_numbers, _read_numbers),
    Lengths: _Form(2, lambda lengths, _: varint(lengths.bytes), _read_lengths),
    Values: _Form(3, _write_values, _read_values),
    Classes: _Form(4, _write_values, _read_classes),
    Items: _Form(5, _write_values, _read_items),
    ClassSets: _Form(6, _write_values, _read_class_sets),
}


# --- `accumulators.bin`: what was gathered of every split, so that datasets can be measured together.
#
#   24 bytes  the magic `penstock.accumulators/1`, and a byte 0
#   32 bytes  the fingerprint of the schema
#   varint    how many numbers a sample has at most, and how many distinct values are counted
#   varint    the number of splits; for each, its name, the length of its bytes as a varint, and
#         these (`dumps_accumulator`)
#
# Statistics of several datasets follow from their accumulators as from one of all their rows, to the last
# bit. Standard library, numpy and pyarrow.

FILE_NAME = "accumulators.bin"

_MAGIC = b"penstock.accumulators/1\0"
_MOST_SPLITS = 1 << 16

Splits = Mapping[str, bytes]  # what `dumps_accumulator` wrote, by split


def dumps(splits: Splits, schema: Schema) -> bytes:
    head = (_MAGIC, bytes.fromhex(schema.fingerprint), *map(varint, _limits()), varint(len(splits)))
    parts = (text(name) + varint(len(content)) + content for name, content in splits.items())
    return b"".join((*head, *parts))


def loads(content: bytes, schema: Schema) -> Splits:
    """The inverse of `dumps`, splits still as bytes; raises DamagedError if it is not such a file."""
    cursor = Cursor(content)
    if cursor.take(len(_MAGIC)) != _MAGIC:
        raise DamagedError(f"a file that does not begin with {_MAGIC!r}")
    if cursor.take(32).hex() != schema.fingerprint:
        raise DamagedError("accumulators of another schema")
    if (limits := (cursor.varint(), cursor.varint())) != _limits():
        raise DamagedError(f"samples of {limits[0]:,} numbers and counts of {limits[1]:,} values")
    pairs = [(cursor.text(), cursor.take(cursor.varint())) for _ in range(cursor.varint(_MOST_SPLITS))]
    cursor.end()
    return dict(pairs)


def merged(parts: Iterable[Sequence[Gathered]], schema: Schema) -> list[Gathered]:
    """Merges the accumulators of each feature in all of the parts, in any order."""
    into = [gathered_of(feature) for feature in schema.of_rows.features]
    for part in parts:
        for one, other in zip(into, part, strict=True):
            one.merge(other)
    return into


def results(gathered: Sequence[Gathered], schema: Schema) -> SplitStatistics:
    pairs = zip(schema.of_rows.features, gathered, strict=True)
    features = {feature.name: each.result(feature) for feature, each in pairs}
    first = next(iter(features.values()))
    return SplitStatistics(examples=first.present + first.missing, features=features)


def statistics_of(split: bytes, schema: Schema) -> SplitStatistics:
    """The statistics of a split from its bytes; raises DamagedError where they are damaged."""
    return results(loads_accumulator(split, schema), schema)


def _limits() -> tuple[int, int]:
    return accumulators.SAMPLE_ROWS, accumulators.MAXIMUM_DISTINCT

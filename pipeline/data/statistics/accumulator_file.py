"""`accumulators.bin`: what was gathered of every split, so that datasets can be measured together.

  24 bytes  the magic `penstock.accumulators/1`, and a byte 0
  32 bytes  the fingerprint of the schema
  varint    how many numbers a sample has at most, and how many distinct values are counted
  varint    the number of splits; for each, its name, the length of its bytes as a varint, and
            these (`accumulator_bytes.py`)

Statistics of several datasets follow from their accumulators as from one of all their rows, to the last bit.
Standard library, numpy and pyarrow.
"""

from collections.abc import Iterable, Mapping, Sequence

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_bytes, accumulators
from pipeline.data.statistics.accumulators import Gathered, gathered_of
from pipeline.data.statistics.cursor import Cursor, DamagedError, text, varint

FILE_NAME = "accumulators.bin"

_MAGIC = b"penstock.accumulators/1\0"
_MOST_SPLITS = 1 << 16

Splits = Mapping[str, bytes]  # what `accumulator_bytes` wrote of each


def dumps(splits: Splits, schema: Schema) -> bytes:
    """The content of the file."""
    head = (_MAGIC, bytes.fromhex(schema.fingerprint), *map(varint, _limits()), varint(len(splits)))
    parts = (text(name) + varint(len(content)) + content for name, content in splits.items())
    return b"".join((*head, *parts))


def loads(content: bytes, schema: Schema) -> Splits:
    """The inverse of `dumps`, splits still as bytes; raises DamagedError where it is no such file."""
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
    """What was gathered of each feature in all of the parts, in any order."""
    into = [gathered_of(feature) for feature in schema.features]
    for part in parts:
        for one, other in zip(into, part, strict=True):
            one.merge(other)
    return into


def results(gathered: Sequence[Gathered], schema: Schema) -> SplitStatistics:
    """The statistics of a split."""
    pairs = zip(schema.features, gathered, strict=True)
    features = {feature.name: each.result(feature) for feature, each in pairs}
    first = next(iter(features.values()))
    return SplitStatistics(examples=first.present + first.missing, features=features)


def statistics_of(split: bytes, schema: Schema) -> SplitStatistics:
    """The statistics of a split; raises DamagedError where its bytes are not those of one."""
    return results(accumulator_bytes.loads(split, schema), schema)


def _limits() -> tuple[int, int]:
    return accumulators.SAMPLE_ROWS, accumulators.MAXIMUM_DISTINCT

"""Accumulators of one feature: they gather batch by batch, and merge in any order to the same bits.

Sums are exact (`exact_sum`). Quantiles come from the rows with the smallest order hash, a uniform sample that
does not depend on which worker saw which row. Value counts are exact up to `MAXIMUM_DISTINCT` values.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, ValueCounts
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
from pipeline.data.statistics import samples
from pipeline.data.statistics.samples import SAMPLE

_QUANTILE_BINS = 32
_DISTRIBUTION_BINS = 256
# The error of a quantile from a sample of k rows is about 1/(2·sqrt(k)), here 0.4 percentage points. With up
# to k rows it is exact.
SAMPLE_ROWS = 1 << 14
# Long lists are summed in parts of so many numbers: a sum needs a hundred times the memory of its numbers.
_NUMBERS_AT_ONCE = 1 << 18
MAXIMUM_DISTINCT = 100_000  # with more distinct values than this, none are counted


class Gathered:
    """The accumulator of any feature: counts the values, and the missing ones."""

    def __init__(self) -> None:
        self.present = 0
        self.missing = 0

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        """Adds a batch: the rows' order hashes, uint64 [rows], and the feature's typed values [rows]."""
        self.missing += column.null_count
        self.present += len(column) - column.null_count

    def merge(self, other: "Gathered") -> None:
        """Adds what another worker gathered for the same feature."""
        self.present += other.present
        self.missing += other.missing

    def result(self, feature: Feature) -> FeatureStatistics:
        return FeatureStatistics(
            name=feature.name, dtype=feature.dtype, present=self.present, missing=self.missing
        )


class Numbers(Gathered):
    """Numbers, those in lists too."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.zeros = self.scaled = self.scaled_squares = 0
        self.minimum, self.maximum = np.inf, -np.inf
        self.sample = np.zeros(0, SAMPLE)

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        order, values = order[present], column.drop_null()
        length = values.type.list_size if isinstance(values, pa.FixedSizeListArray) else 1
        rows = max(1, _NUMBERS_AT_ONCE // length)
        for start in range(0, len(values), rows):
            self._add_some(order[start : start + rows], values.slice(start, rows))

    def _add_some(self, order: np.ndarray, values: pa.Array) -> None:
        if isinstance(values, pa.FixedSizeListArray):
            order, values = np.repeat(order, values.type.list_size), values.flatten()
        # Adding 0.0 turns -0.0 into 0.0; otherwise the order of rows would decide which of the two is the
        # minimum.
        self._add(order, values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0)

    def _add(self, order: np.ndarray, values: np.ndarray) -> None:
        self.count += len(values)
        self.zeros += int(np.count_nonzero(values == 0))
        self.scaled += scaled_sum(values)
        self.scaled_squares += scaled_square_sum(values)
        self.minimum = min(self.minimum, float(values.min()))
        self.maximum = max(self.maximum, float(values.max()))
        if len(self.sample) == SAMPLE_ROWS:
            candidates = order <= self.sample["order"].max()
            order, values = order[candidates], values[candidates]
        sample = np.empty(len(values), SAMPLE)
        sample["order"], sample["value"] = order, values
        self.sample = _smallest(np.concatenate([self.sample, sample]))

    def merge(self, other: "Numbers") -> None:
        super().merge(other)
        self.count += other.count
        self.zeros += other.zeros
        self.scaled += other.scaled
        self.scaled_squares += other.scaled_squares
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.sample = _smallest(np.concatenate([self.sample, other.sample]))

    def result(self, feature: Feature) -> FeatureStatistics:
        summary = self._summary()
        if self.count and isinstance(feature, Numeric):
            summary = dataclasses.replace(summary, repeated=samples.repeated_numbers(self.sample["value"]))
        return dataclasses.replace(super().result(feature), numeric=summary)

    def _summary(self) -> NumericSummary:
        if not self.count:
            return NumericSummary(minimum=0.0, maximum=0.0, mean=0.0, std=0.0, zeros=0, quantiles=())
        mean, std = mean_and_std(count=self.count, scaled=self.scaled, scaled_squares=self.scaled_squares)
        return NumericSummary(
            minimum=self.minimum,
            maximum=self.maximum,
            mean=mean,
            std=std,
            zeros=self.zeros,
            quantiles=self._boundaries(_QUANTILE_BINS, "linear"),
            # The boundaries are values that occur, so that each of few distinct values keeps its share.
            distribution=self._boundaries(_DISTRIBUTION_BINS, "inverted_cdf"),
        )

    def _boundaries(self, bins: int, method: str) -> tuple[float, ...]:
        inner = np.quantile(self.sample["value"], np.arange(1, bins) / bins, method=method)
        return (self.minimum, *inner.tolist(), self.maximum)


class Lengths(Gathered):
    """The mean length of values in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column)
        self.bytes += pc.sum(pc.binary_length(column)).as_py() or 0

    def merge(self, other: "Lengths") -> None:
        super().merge(other)
        self.bytes += other.bytes

    def result(self, feature: Feature) -> FeatureStatistics:
        return dataclasses.replace(super().result(feature), mean_length=self.bytes / max(1, self.present))


class Values(Lengths):
    """How often each value occurs, an integer in its decimal form."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] | None = {}  # None: more than MAXIMUM_DISTINCT

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column.cast(pa.string()))
        counted = column.drop_null().value_counts()
        values = map(str, counted.field("values").to_pylist())
        self._add(dict(zip(values, counted.field("counts").to_pylist(), strict=True)))

    def merge(self, other: "Values") -> None:
        super().merge(other)
        self._add(other.counts)

    def _add(self, counts: Mapping[str, int] | None) -> None:
        if self.counts is None or counts is None:
            self.counts = None
            return
        for value, count in counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        if len(self.counts) > MAXIMUM_DISTINCT:
            self.counts = None

    def result(self, feature: Feature) -> FeatureStatistics:
        return dataclasses.replace(super().result(feature), values=self._ranked(self.counts))

    def _ranked(self, counts: Mapping[str, int] | None) -> ValueCounts:
        """The most frequent value first, equally frequent ones by their text."""
        if counts is None:
            return ValueCounts(distinct=MAXIMUM_DISTINCT + 1, values=(), complete=False)
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return ValueCounts(distinct=len(ranked), values=tuple(ranked))


class Items(Values):
    """How often each value occurs in lists of categories; empty strings fill these up, and are none."""

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        Gathered.add(self, order, column)
        items = column.drop_null().flatten()
        items = items.filter(pc.not_equal(items, ""))
        self.bytes += pc.sum(pc.binary_length(items)).as_py() or 0
        counted = items.value_counts()
        values, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
        self._add(dict(zip(values, counts, strict=True)))


class Classes(Values):
    """How often each class occurs, by name; it is counted by index."""

    def result(self, feature: Label) -> FeatureStatistics:
        counts = self.counts
        if counts is not None:
            counts = {feature.classes[int(index)]: count for index, count in counts.items()}
        # The mean length would be that of the indices.
        return dataclasses.replace(super().result(feature), values=self._ranked(counts), mean_length=0.0)


class ClassSets(Classes):
    """The number of rows that have each class of a multilabel, by its name; counted by its index."""

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        Gathered.add(self, order, column)
        hot = column.drop_null()
        counts = hot.flatten().to_numpy().reshape(len(hot), hot.type.list_size).sum(axis=0).tolist()
        self._add({str(index): count for index, count in enumerate(counts) if count})


def _of_label(label: Label) -> Gathered:
    if not label.classes:
        return Numbers()
    return ClassSets() if label.shape else Classes()


def gathered_of(feature: Feature) -> Gathered:
    return Gathered() if feature.statistics == "none" else _BY_TYPE.of(feature)(feature)


_BY_TYPE: FeatureTypeTable[Callable[[Feature], Gathered]] = FeatureTypeTable(
    where=__name__,
    question="what statistics gather of a feature",
    entry="a function of the feature to an empty Gathered",
    entries={
        Numeric: lambda feature: Numbers(),
        Categorical: lambda feature: Values(),
        Categories: lambda feature: Items(),
        Label: _of_label,
        Image: lambda feature: Lengths(),
        Text: lambda feature: Lengths(),
        Tokens: lambda feature: Numbers(),
        Tensor: lambda feature: Numbers(),
        Datetime: lambda feature: Numbers(),
    },
)


def _smallest(sample: np.ndarray) -> np.ndarray:
    """The `SAMPLE_ROWS` entries with the smallest order hash; the value breaks ties."""
    if len(sample) <= SAMPLE_ROWS:
        return sample
    return sample[np.lexsort((sample["value"], sample["order"]))[:SAMPLE_ROWS]]


# --- Exact sums of float64 values: the same bits in whatever order parts are added.

# Every finite float64 is a whole multiple of 2^-1074, so a sum of them is one (large) integer. The values of
# a batch are split into 53-bit integers and exponents. NumPy sums the integers of each exponent in parts that
# are too small to overflow.
#
# frexp gives x = m · 2^e with 2^53·m whole and e ≥ -1073: x is a multiple of 2^-(1073 + 53).
_SHIFT = 1073 + 53


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Groups:
    """Values grouped by exponent: `whole[i] · 2^(exponent - 53)` is a value of its group."""

    whole: np.ndarray  # int64 [values]
    exponents: list[int]  # [groups]
    starts: np.ndarray  # int64 [groups], positions in `whole`


def scaled_sum(values: np.ndarray) -> int:
    """2^1126 · Σ x over finite `values`, float64 [n], exactly."""
    groups = _by_exponent(values)
    sums = _group_sums(groups.whole, groups.starts)
    return sum(s << (e - 53 + _SHIFT) for s, e in zip(sums, groups.exponents, strict=True))


def scaled_square_sum(values: np.ndarray) -> int:
    """2^2252 · Σ x² over finite `values`, float64 [n], exactly."""
    groups = _by_exponent(np.abs(values))
    high, low = groups.whole >> 26, groups.whole & ((1 << 26) - 1)
    # (h·2^26 + l)² = h²·2^52 + 2hl·2^26 + l²
    parts = (_group_sums(product, groups.starts) for product in (high * high, high * low, low * low))
    squares = [(hh << 52) + (hl << 27) + ll for hh, hl, ll in zip(*parts, strict=True)]
    return sum(s << 2 * (e - 53 + _SHIFT) for s, e in zip(squares, groups.exponents, strict=True))


def mean_and_std(*, count: int, scaled: int, scaled_squares: int) -> tuple[float, float]:
    """Mean and population standard deviation. They become floats only at the end, so nothing cancels or
    overflows.
    """
    mean = scaled / (count << _SHIFT)
    # The root has 64 bits after the point, so the error is far below float64's precision.
    root = math.isqrt((count * scaled_squares - scaled * scaled) << 128)
    return mean, root / (count << _SHIFT + 64)


def _by_exponent(values: np.ndarray) -> _Groups:
    mantissa, exponent = np.frexp(values)
    order = np.argsort(exponent, kind="stable")
    exponent = exponent[order]
    starts = np.flatnonzero(np.diff(exponent, prepend=exponent[:1] - 1))
    whole = (mantissa[order] * (1 << 53)).astype(np.int64)
    return _Groups(whole=whole, exponents=exponent[starts].tolist(), starts=starts)


def _group_sums(whole: np.ndarray, starts: np.ndarray) -> list[int]:
    """Exact sum of each group of int64: sums of 32-bit halves cannot overflow below 2^31 values."""
    if not len(whole):
        return []
    high = np.add.reduceat(whole >> 32, starts).tolist()
    low = np.add.reduceat(whole & 0xFFFFFFFF, starts).tolist()
    return [(h << 32) + part for h, part in zip(high, low, strict=True)]

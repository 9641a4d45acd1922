"""What is gathered of one feature, batch by batch, and merged in any order to the same bits.

Sums are exact (`exact_sum`); quantiles come from the rows with the smallest order hash, which is a uniform
sample that does not depend on who saw which row; value counts are exact up to a number of distinct values.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import exact_sum
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical, Image, Label, Text
from pipeline.data.statistics import FeatureStatistics, NumericSummary, ValueCounts

QUANTILE_BINS = 32
DISTRIBUTION_BINS = 256
# Error of a quantile from a sample of k rows: about 1/(2·sqrt(k)) = 0.4 percentage points; exact below k.
SAMPLE_ROWS = 1 << 14
MAXIMUM_DISTINCT = 100_000  # beyond it, values are not counted one by one


class Gathered:
    """What is gathered of any feature."""

    def __init__(self) -> None:
        self.present = 0
        self.missing = 0

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        self.missing += column.null_count
        self.present += len(column) - column.null_count

    def merge(self, other: "Gathered") -> None:
        self.present += other.present
        self.missing += other.missing

    def result(self, feature: Feature) -> FeatureStatistics:
        return FeatureStatistics(
            name=feature.name, dtype=feature.dtype, present=self.present, missing=self.missing
        )


class _Numbers(Gathered):
    """Numbers; of tensors, every element."""

    def __init__(self) -> None:
        super().__init__()
        self.count = self.zeros = self.scaled = self.scaled_squares = 0
        self.minimum, self.maximum = np.inf, -np.inf
        self.sample = np.zeros(0, [("order", np.uint64), ("value", np.float64)])

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column)
        present = column.is_valid().to_numpy(zero_copy_only=False)
        order, values = order[present], column.drop_null()
        if isinstance(values, pa.FixedSizeListArray):
            order, values = np.repeat(order, values.type.list_size), values.flatten()
        if len(values):
            # Adding 0.0 turns -0.0 into 0.0: of the two, min and max would pick by order.
            self._add(order, values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0)

    def _add(self, order: np.ndarray, values: np.ndarray) -> None:
        self.count += len(values)
        self.zeros += int(np.count_nonzero(values == 0))
        self.scaled += exact_sum.scaled_sum(values)
        self.scaled_squares += exact_sum.scaled_square_sum(values)
        self.minimum = min(self.minimum, float(values.min()))
        self.maximum = max(self.maximum, float(values.max()))
        if len(self.sample) == SAMPLE_ROWS:
            candidates = order <= self.sample["order"].max()
            order, values = order[candidates], values[candidates]
        sample = np.empty(len(values), self.sample.dtype)
        sample["order"], sample["value"] = order, values
        self.sample = _smallest(np.concatenate([self.sample, sample]))

    def merge(self, other: "_Numbers") -> None:
        super().merge(other)
        self.count += other.count
        self.zeros += other.zeros
        self.scaled += other.scaled
        self.scaled_squares += other.scaled_squares
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.sample = _smallest(np.concatenate([self.sample, other.sample]))

    def result(self, feature: Feature) -> FeatureStatistics:
        return dataclasses.replace(super().result(feature), numeric=self._summary())

    def _summary(self) -> NumericSummary:
        if not self.count:
            return NumericSummary(minimum=0.0, maximum=0.0, mean=0.0, std=0.0, zeros=0, quantiles=())
        mean, std = exact_sum.mean_and_std(
            count=self.count, scaled=self.scaled, scaled_squares=self.scaled_squares
        )
        return NumericSummary(
            minimum=self.minimum,
            maximum=self.maximum,
            mean=mean,
            std=std,
            zeros=self.zeros,
            quantiles=self._boundaries(QUANTILE_BINS, "linear"),
            # Values that occur, so that those of few distinct values keep their shares.
            distribution=self._boundaries(DISTRIBUTION_BINS, "inverted_cdf"),
        )

    def _boundaries(self, bins: int, method: str) -> tuple[float, ...]:
        inner = np.quantile(self.sample["value"], np.arange(1, bins) / bins, method=method)
        return (self.minimum, *inner.tolist(), self.maximum)


class _Lengths(Gathered):
    """Bytes a value, of images and text."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column)
        self.bytes += pc.sum(pc.binary_length(column)).as_py() or 0

    def merge(self, other: "_Lengths") -> None:
        super().merge(other)
        self.bytes += other.bytes

    def result(self, feature: Feature) -> FeatureStatistics:
        return dataclasses.replace(super().result(feature), mean_length=self.bytes / max(1, self.present))


class _Values(_Lengths):
    """How often each value occurs; of integers, their decimal form; of classes, their names."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] | None = {}  # None: more than MAXIMUM_DISTINCT

    def add(self, order: np.ndarray, column: pa.Array) -> None:
        super().add(order, column.cast(pa.string()))
        counted = column.drop_null().value_counts()
        values = map(str, counted.field("values").to_pylist())
        self._add(dict(zip(values, counted.field("counts").to_pylist(), strict=True)))

    def merge(self, other: "_Values") -> None:
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
        statistics = super().result(feature)
        if isinstance(feature, Label):
            # Their length would be that of the class's number.
            statistics = dataclasses.replace(statistics, mean_length=0.0)
        return dataclasses.replace(statistics, values=self._counts(feature))

    def _counts(self, feature: Feature) -> ValueCounts:
        if self.counts is None:
            return ValueCounts(distinct=MAXIMUM_DISTINCT + 1, values=(), complete=False)
        counts = self.counts
        if isinstance(feature, Label):
            counts = {feature.classes[int(index)]: count for index, count in counts.items()}
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return ValueCounts(distinct=len(ranked), values=tuple(ranked))


def gathered_by(feature: Feature) -> type[Gathered]:
    if isinstance(feature, Image | Text):
        return _Lengths
    counts_values = isinstance(feature, Categorical) or (isinstance(feature, Label) and feature.classes)
    return _Values if counts_values else _Numbers


def _smallest(sample: np.ndarray) -> np.ndarray:
    """The `SAMPLE_ROWS` entries of smallest order hash; ties broken by value."""
    if len(sample) <= SAMPLE_ROWS:
        return sample
    return sample[np.lexsort((sample["value"], sample["order"]))[:SAMPLE_ROWS]]

"""The statistics of each feature, as the conversion measured them; reads and writes `statistics.pb`.

The file is a tensorflow-metadata `DatasetFeatureStatisticsList` with an entry for each split; TFDV and Facets
can open it too. Preprocessing takes means, bins and vocabularies from here, the report takes its plots.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import statistics_pb2

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import damaged_file

_PROTO_TYPE = {
    "float32": statistics_pb2.FeatureNameStatistics.FLOAT,
    "int64": statistics_pb2.FeatureNameStatistics.INT,
    "string": statistics_pb2.FeatureNameStatistics.STRING,
}
_REPEATED = "repeated_values"  # name in custom_stats
_DTYPE_OF_PROTO = {proto: dtype for dtype, proto in _PROTO_TYPE.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericSummary:
    """A summary of the present values; the standard deviation is the population's."""

    minimum: float
    maximum: float
    mean: float
    std: float
    zeros: int
    quantiles: tuple[float, ...]  # q + 1 boundaries of q equally filled bins, from minimum to maximum
    distribution: tuple[float, ...] = ()  # boundaries of many more such bins, on which drift is measured
    repeated: tuple[float, ...] = ()  # numbers that occur often, ascending


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueCounts:
    """How often each value occurs: the most frequent first, then in the order of values.

    If there were too many different values to count, `values` is empty and `distinct` a lower bound.
    """

    distinct: int
    values: tuple[tuple[str, int], ...]
    complete: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureStatistics:
    """One feature in one split."""

    name: str
    dtype: str  # "float32", "int64" or "string"
    present: int  # examples with a value
    missing: int  # examples without one, before defaults were filled in
    mean_length: float = 0.0  # mean bytes of a string
    numeric: NumericSummary | None = None
    values: ValueCounts | None = None

    @property
    def missing_fraction(self) -> float:
        return self.missing / max(1, self.present + self.missing)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitStatistics:
    examples: int
    features: Mapping[str, FeatureStatistics]


Statistics = Mapping[str, SplitStatistics]


def read(path: pathlib.Path) -> Statistics:
    """Reads a statistics file; raises InputError if it is not one."""
    try:
        data = files.read_bytes(path)
    except OSError as error:
        raise _is_none(path, str(error)) from None
    return named(data, path)


def named(data: bytes, path: pathlib.Path) -> Statistics:
    """Loads statistics; raises an InputError that names the file if they are not valid."""
    try:
        return loads(data)
    except ValueError as error:
        raise _is_none(path, str(error)) from None


def _is_none(path: pathlib.Path, received: str) -> InputError:
    expected = "a tensorflow-metadata DatasetFeatureStatisticsList"
    return damaged_file(f"statistics file {path}", received, expected)


def loads(data: bytes) -> Statistics:
    """The inverse of `dumps`; raises ValueError if it is not such a message."""
    try:
        message = statistics_pb2.DatasetFeatureStatisticsList.FromString(data)
    except Exception as error:  # protobuf raises its own DecodeError, not a ValueError
        raise ValueError(f"not a statistics message ({error})") from None
    return {split.name: _split_from_proto(split) for split in message.datasets}


def dumps(statistics: Statistics) -> bytes:
    """Serialized message; equal statistics give equal bytes."""
    message = statistics_pb2.DatasetFeatureStatisticsList()
    for name, split in statistics.items():
        entry = message.datasets.add(name=name, num_examples=split.examples)
        for feature in split.features.values():
            _feature_to_proto(feature, entry.features.add())
    return message.SerializeToString(deterministic=True)


def _split_from_proto(entry: statistics_pb2.DatasetFeatureStatistics) -> SplitStatistics:
    features = [_feature_from_proto(feature) for feature in entry.features]
    return SplitStatistics(examples=entry.num_examples, features={f.name: f for f in features})


def _feature_to_proto(feature: FeatureStatistics, entry: statistics_pb2.FeatureNameStatistics) -> None:
    entry.path.step.append(feature.name)
    entry.type = _PROTO_TYPE[feature.dtype]
    if feature.numeric is not None:
        _common_to_proto(feature, entry.num_stats.common_stats)
        _numeric_to_proto(feature.numeric, feature.present, entry.num_stats)
        if feature.numeric.repeated:
            histogram = entry.custom_stats.add(name=_REPEATED).histogram
            for value in feature.numeric.repeated:
                histogram.buckets.add(low_value=value, high_value=value)
        return
    # tensorflow-metadata describes categories of any type with string_stats.
    _common_to_proto(feature, entry.string_stats.common_stats)
    entry.string_stats.avg_length = feature.mean_length
    if feature.values is not None:
        _values_to_proto(feature.values, entry.string_stats)


def _common_to_proto(feature: FeatureStatistics, common: statistics_pb2.CommonStatistics) -> None:
    common.num_non_missing = feature.present
    common.num_missing = feature.missing
    common.min_num_values = common.max_num_values = 1
    common.avg_num_values = 1.0
    common.tot_num_values = feature.present


def _numeric_to_proto(numeric: NumericSummary, present: int, entry: statistics_pb2.NumericStatistics) -> None:
    entry.mean, entry.std_dev, entry.num_zeros = numeric.mean, numeric.std, numeric.zeros
    entry.min, entry.max = numeric.minimum, numeric.maximum
    if not numeric.quantiles:
        return
    entry.median = numeric.quantiles[len(numeric.quantiles) // 2]
    for boundaries in (numeric.quantiles, numeric.distribution):
        histogram = entry.histograms.add(type=statistics_pb2.Histogram.QUANTILES)
        bins = len(boundaries) - 1
        for low, high in itertools.pairwise(boundaries):
            histogram.buckets.add(low_value=low, high_value=high, sample_count=present / bins)


def _values_to_proto(values: ValueCounts, entry: statistics_pb2.StringStatistics) -> None:
    entry.unique = values.distinct
    for rank, (value, count) in enumerate(values.values):
        entry.rank_histogram.buckets.add(low_rank=rank, high_rank=rank, label=value, sample_count=count)
    for value, count in values.values[:10]:
        entry.top_values.add(value=value, frequency=count)


def _feature_from_proto(entry: statistics_pb2.FeatureNameStatistics) -> FeatureStatistics:
    is_numeric = entry.WhichOneof("stats") == "num_stats"
    stats = entry.num_stats if is_numeric else entry.string_stats
    return FeatureStatistics(
        name=entry.path.step[0],
        dtype=_DTYPE_OF_PROTO[entry.type],
        present=stats.common_stats.num_non_missing,
        missing=stats.common_stats.num_missing,
        mean_length=0.0 if is_numeric else stats.avg_length,
        numeric=_numeric_from_proto(entry) if is_numeric else None,
        values=None if is_numeric else _values_from_proto(entry.string_stats),
    )


def _numeric_from_proto(entry: statistics_pb2.FeatureNameStatistics) -> NumericSummary:
    stats = entry.num_stats
    quantiles, distribution = map(_boundaries, stats.histograms) if stats.histograms else ((), ())
    repeated = [each.histogram.buckets for each in entry.custom_stats if each.name == _REPEATED]
    return NumericSummary(
        minimum=stats.min,
        maximum=stats.max,
        mean=stats.mean,
        std=stats.std_dev,
        zeros=stats.num_zeros,
        quantiles=quantiles,
        distribution=distribution,
        repeated=tuple(bucket.low_value for buckets in repeated for bucket in buckets),
    )


def _boundaries(histogram: statistics_pb2.Histogram) -> tuple[float, ...]:
    return (histogram.buckets[0].low_value, *(bucket.high_value for bucket in histogram.buckets))


def _values_from_proto(entry: statistics_pb2.StringStatistics) -> ValueCounts | None:
    if not entry.unique:
        return None
    values = tuple((bucket.label, int(bucket.sample_count)) for bucket in entry.rank_histogram.buckets)
    return ValueCounts(distinct=entry.unique, values=values, complete=len(values) == entry.unique)

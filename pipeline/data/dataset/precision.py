"""What storing a number loses of it, beside how far a column's numbers are spread."""

from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.schema.feature import Feature

# The largest relative error of rounding to float32. An int64 is stored whole, but statistics are float64's.
_ROUNDING = {"float32": 2.0**-24, "int64": 2.0**-53}
_SMALLEST = 2.0**-126  # float32 below is taken for 0 by TensorFlow


def rounding(feature: Feature, statistics: FeatureStatistics) -> float:
    """The error of a stored number of usual size, in standard deviations; 0 for a constant column."""
    summary = statistics.numeric
    if summary is None or not summary.std:
        return 0.0
    smallest = _SMALLEST if feature.dtype == "float32" else 0.0
    return max(abs(summary.mean) * _ROUNDING[feature.dtype], smallest) / summary.std

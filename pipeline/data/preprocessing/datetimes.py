"""What a model gets of a point in time: the time, and where it lies in the day, the week and the year."""

import math
from collections.abc import Callable

import tensorflow as tf

from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.preprocessing.numbers import zero_where
from pipeline.data.preprocessing.zones import offset_at
from pipeline.data.schema import civil, zone_changes
from pipeline.data.schema.datetime_kind import Datetime

WIDTH = 7


def time_columns(feature: Datetime, statistics: FeatureStatistics) -> Callable[[tf.Tensor], tf.Tensor]:
    """Microseconds since 1970, int64 [batch] → float32 [batch, WIDTH]; zeros where the time is missing.

    The columns: the time, of zero mean and unit variance; then sine and cosine of the hour (with its minutes
    and seconds), of the day of the week and of the month, on the clocks of the feature's zone.
    """
    mean, spread = _mean_and_spread(statistics)
    table = zone_changes.changes(feature.zone)

    def columns(moments: tf.Tensor) -> tf.Tensor:
        missing = moments == civil.NOT_A_TIME
        moments = tf.clip_by_value(moments, civil.FIRST, civil.LAST)  # a request may hold any int64
        seconds = moments // civil.SECOND
        local = seconds + offset_at(table.utc, table.offsets, seconds)
        days = local // 86_400
        # Subtracted as int64: a float32 near 1.7e15 is exact to two minutes. Multiplied: TensorFlow makes a
        # product of a division by a constant where it serves, and not where it reads.
        standardized = tf.cast(moments - mean, tf.float32) * (1.0 / spread)
        values = [
            standardized,
            *_on_circle(local % 86_400, 86_400),
            *_on_circle(civil.weekday_index(days), 7),
            *_on_circle(civil.month_index(days), 12),
        ]
        return zero_where(missing, tf.stack(values, axis=1))  # (batch, WIDTH)

    return columns


def missing_time(moments: tf.Tensor) -> tf.Tensor:
    """Microseconds [batch] → float32 [batch, 1]: 1 where the time is missing."""
    return tf.cast(moments == civil.NOT_A_TIME, tf.float32)[:, None]


def _mean_and_spread(statistics: FeatureStatistics) -> tuple[int, float]:
    """Microseconds; a day where all times are the same."""
    summary = statistics.numeric
    return (round(summary.mean), summary.std or float(civil.DAY)) if summary else (0, float(civil.DAY))


def _on_circle(position: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Sine and cosine, float32 [batch], of `position`, int64 [batch], on a circle of `length` steps."""
    angle = tf.cast(position, tf.float32) * (2 * math.pi / length)
    return tf.sin(angle), tf.cos(angle)

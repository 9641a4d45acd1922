"""Points in time as model inputs: the time, and its place in the day, the week and the year."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.data.preprocessing.numbers import zero_where
from pipeline.data.schema import times
from pipeline.data.schema.feature_types import Datetime
from pipeline.data.schema.times import FOLDED_FROM, NUMBERS, PERIOD, pattern

WIDTH = 7


def time_columns(feature: Datetime, statistics: FeatureStatistics) -> Callable[[tf.Tensor], tf.Tensor]:
    """Microseconds since 1970, int64 [batch] → float32 [batch, WIDTH]; zeros where the time is missing.

    The columns: the time, of zero mean and unit variance; then sine and cosine of the hour (with its minutes
    and seconds), of the day of the week and of the month, on the clocks of the feature's zone.
    """
    mean, spread = _mean_and_spread(statistics)
    table = times.zone_changes(feature.zone)

    def columns(moments: tf.Tensor) -> tf.Tensor:
        missing = moments == times.NOT_A_TIME
        moments = tf.clip_by_value(moments, times.FIRST, times.LAST)  # a request may hold any int64
        seconds = moments // times.SECOND
        local = seconds + offset_at(table.utc, table.offsets, seconds)
        days = local // 86_400
        # The mean is subtracted in int64, because a float32 near 1.7e15 is only exact to two minutes. It
        # multiplies by the inverse, because TensorFlow turns a division by a constant into a product in
        # serving, but not in reading.
        standardized = tf.cast(moments - mean, tf.float32) * (1.0 / spread)
        values = [
            standardized,
            *_on_circle(local % 86_400, 86_400),
            *_on_circle(times.weekday_index(days), 7),
            *_on_circle(times.month_index(days), 12),
        ]
        return zero_where(missing, tf.stack(values, axis=1))  # (batch, WIDTH)

    return columns


def missing_time(moments: tf.Tensor) -> tf.Tensor:
    """Microseconds [batch] → float32 [batch, 1]: 1 where the time is missing."""
    return tf.cast(moments == times.NOT_A_TIME, tf.float32)[:, None]


def _mean_and_spread(statistics: FeatureStatistics) -> tuple[int, float]:
    """Mean and spread in microseconds; the spread is a day where all times are the same."""
    summary = statistics.numeric
    return (round(summary.mean), summary.std or float(times.DAY)) if summary else (0, float(times.DAY))


def _on_circle(position: tf.Tensor, length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Sine and cosine, float32 [batch], of `position`, int64 [batch], on a circle of `length` steps."""
    angle = tf.cast(position, tf.float32) * (2 * math.pi / length)
    return tf.sin(angle), tf.cos(angle)


# --- Points in time from the text of a request, read as `beam_jobs/cells/datetimes` reads raw data.

_MOST, _MOST_MINUTES = "23:59", 23 * 60 + 59  # largest offsets from UTC
_SOME_TIME = "2000-01-01T00:00:00"


def moments_of(feature: Datetime, texts: tf.Tensor) -> tf.Tensor:
    """Microseconds since 1970, int64 [batch], of `texts` [batch]; NOT_A_TIME where a text is not one."""
    is_date = tf.strings.regex_full_match(texts, pattern(feature.format))
    texts = tf.where(is_date, texts, times.spelled(feature.format, _SOME_TIME))
    parts = {name: _number(_part(feature, texts, name), name) for name in NUMBERS}
    is_short = tf.strings.length(_part(feature, texts, "year")) == 2
    parts["year"] = tf.where(is_short, times.full_year(parts["year"], feature.first_year), parts["year"])
    half = tf.strings.lower(_part(feature, texts, "half"))
    sign = _part(feature, texts, "sign")
    local, exists = _civil_time(parts, half)
    written = (parts["zone_hours"] * 3600 + parts["zone_minutes"] * 60) * tf.where(sign == "-", _int(-1), 1)
    has_offset = (sign != "") | (_part(feature, texts, "utc") != "")
    table = times.zone_changes(feature.zone)
    seconds = local // times.SECOND
    offset = tf.where(has_offset, written, offset_at(table.wall, table.offsets, seconds))
    is_day = _part(feature, texts, "hour") == ""
    # A day whose midnight is skipped is still a day.
    is_skipped = _is_skipped(table, seconds) & (~is_day | _is_skipped(table, seconds + 86_399))
    exists &= has_offset | ~is_skipped
    return tf.where(is_date & exists, local - offset * times.SECOND, _int(times.NOT_A_TIME))


def are_moments(feature: Datetime, texts: tf.Tensor) -> tf.Tensor:
    """Returns whether each text [batch] is a point in time: bool [batch]."""
    return moments_of(feature, texts) != times.NOT_A_TIME


def texts_of(feature: Datetime, moments: np.ndarray) -> list[str]:
    """Texts that `moments_of` reads as `moments`, int64 [batch]; empty where there is no time."""
    minute = 60 * times.SECOND
    year_1, year_10000 = times.FIRST + _MOST_MINUTES * minute, times.LAST + 1 - _MOST_MINUTES * minute
    # A text can have years 1 to 9999, so a time outside them in UTC is written with an offset.
    minutes = np.where(moments >= year_10000, -_MOST_MINUTES, np.where(moments < year_1, _MOST_MINUTES, 0))
    written = moments.astype("datetime64[us]") + minutes.astype("timedelta64[m]")
    offsets = [f"{'-' if offset < 0 else '+'}{_MOST}" if offset else "Z" for offset in minutes]
    return [
        "" if np.isnat(moment) else times.spelled(feature.format, str(moment), offset)
        for moment, offset in zip(written, offsets, strict=True)
    ]


def _civil_time(parts: dict[str, tf.Tensor], half: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Microseconds since 1970 as the clock shows them, int64 [batch], and whether there is such a time."""
    year, month, day, hour = (parts[name] for name in ("year", "month", "day", "hour"))
    exists = (year >= 1) & (month >= 1) & (month <= 12)
    months = tf.clip_by_value(month, 1, 12)
    exists &= (day >= 1) & (day <= times.days_of_month(year, months))
    exists &= tf.where(half != "", (hour >= 1) & (hour <= 12), hour <= 23)
    exists &= (parts["minute"] <= 59) & (parts["second"] <= 59)
    exists &= (parts["zone_hours"] <= 23) & (parts["zone_minutes"] <= 59)
    hour = tf.where(half != "", hour % 12 + tf.where(half == "p", _int(12), 0), hour)
    seconds = ((times.days(year, months, day) * 24 + hour) * 60 + parts["minute"]) * 60 + parts["second"]
    return seconds * times.SECOND + parts["fraction"], exists


def _part(feature: Datetime, texts: tf.Tensor, name: str) -> tf.Tensor:
    """The text of one part of each text [batch]; empty where it is left out."""
    return tf.strings.regex_replace(texts, pattern(feature.format, part=name), r"\1")


def _number(texts: tf.Tensor, name: str) -> tf.Tensor:
    if name == "fraction":
        # Digits after the sixth are finer than a microsecond.
        texts = tf.strings.substr(texts + "000000", 0, 6)
    if name == "month":
        named = tf.strings.substr(tf.strings.lower(texts) + "   ", 0, 3)[:, None] == tf.constant(times.MONTHS)
        index = tf.strings.as_string(1 + tf.argmax(tf.cast(named, tf.int32), axis=1))
        texts = tf.where(tf.reduce_any(named, axis=1), index, texts)
    return tf.strings.to_number(tf.where(texts == "", "0", texts), tf.int64)


def _int(value: int) -> tf.Tensor:
    return tf.constant(value, tf.int64)


def offset_at(changes: Sequence[int], offsets: Sequence[int], seconds: tf.Tensor) -> tf.Tensor:
    """Seconds ahead of UTC, int64 [batch], at `seconds` since 1970, int64 [batch], of the clock of `changes`.

    `changes` are the `utc` or the `wall` of a `ZoneChanges`, `offsets` are its offsets.
    """
    position = tf.searchsorted(tf.constant(changes, tf.int64), _folded(seconds), side="right")
    return tf.gather(tf.constant(offsets, tf.int64), position)


def _is_skipped(table: times.ZoneChanges, seconds: tf.Tensor) -> tf.Tensor:
    """Returns whether a change of the clocks skips the local time of `seconds`, bool [batch]."""
    before = _folded(seconds) - offset_at(table.wall, table.offsets, seconds)
    return before >= offset_at(table.wall, table.ends, seconds)


def _folded(seconds: tf.Tensor) -> tf.Tensor:
    past = tf.maximum(tf.constant(0, tf.int64), (seconds - FOLDED_FROM) // PERIOD)
    return seconds - past * PERIOD

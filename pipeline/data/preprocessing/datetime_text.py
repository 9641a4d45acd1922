"""Points in time from the text of a request, read as `beam_jobs/cells/datetimes` reads raw data."""

import numpy as np
import tensorflow as tf

from pipeline.data.preprocessing.zones import offset_at
from pipeline.data.schema import civil, zone_changes
from pipeline.data.schema.datetime_format import NUMBERS, pattern
from pipeline.data.schema.datetime_kind import Datetime

_MOST, _MOST_MINUTES = "23:59", 23 * 60 + 59  # of an offset from UTC
_LIKE = (("%Y", "2000"), ("%m", "01"), ("%d", "01"))


def moments_of(feature: Datetime, texts: tf.Tensor) -> tf.Tensor:
    """Microseconds since 1970, int64 [batch], of `texts` [batch]; NOT_A_TIME where a text is no such time."""
    is_date = tf.strings.regex_full_match(texts, pattern(feature.format))
    texts = tf.where(is_date, texts, _example(feature.format))
    parts = {name: _number(_part(feature, texts, name), name) for name in NUMBERS}
    half = tf.strings.lower(_part(feature, texts, "half"))
    sign = _part(feature, texts, "sign")
    local, exists = _civil_time(parts, half)
    written = (parts["zone_hours"] * 3600 + parts["zone_minutes"] * 60) * tf.where(sign == "-", _int(-1), 1)
    has_offset = (sign != "") | (_part(feature, texts, "utc") != "")
    table = zone_changes.changes(feature.zone)
    offset = tf.where(has_offset, written, offset_at(table.wall, table.offsets, local // civil.SECOND))
    return tf.where(is_date & exists, local - offset * civil.SECOND, _int(civil.NOT_A_TIME))


def texts_of(feature: Datetime, moments: np.ndarray) -> list[str]:
    """Texts that `moments_of` reads as `moments`, int64 [batch]; empty where there is no time."""
    minute = 60 * civil.SECOND
    year_1, year_10000 = civil.FIRST + _MOST_MINUTES * minute, civil.LAST + 1 - _MOST_MINUTES * minute
    # A text has years 1 to 9999, so what lies outside of them in UTC is written with an offset.
    minutes = np.where(moments >= year_10000, -_MOST_MINUTES, np.where(moments < year_1, _MOST_MINUTES, 0))
    written = moments.astype("datetime64[us]") + minutes.astype("timedelta64[m]")
    offsets = [f"{'-' if offset < 0 else '+'}{_MOST}" if offset else "Z" for offset in minutes]
    return [
        "" if np.isnat(moment) else _dated(feature.format, str(moment), offset)
        for moment, offset in zip(written, offsets, strict=True)
    ]


def _dated(format: str, moment: str, offset: str) -> str:
    """`moment` as NumPy writes it, with its date in this format."""
    date, time = moment.split("T")
    for directive, number in zip(("%Y", "%m", "%d"), date.split("-"), strict=True):
        format = format.replace(directive, number)
    return f"{format}T{time}{offset}"


def _civil_time(parts: dict[str, tf.Tensor], half: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Microseconds since 1970 as the clock shows them, int64 [batch], and whether there is such a time."""
    year, month, day, hour = (parts[name] for name in ("year", "month", "day", "hour"))
    exists = (year >= 1) & (month >= 1) & (month <= 12)
    months = tf.clip_by_value(month, 1, 12)
    exists &= (day >= 1) & (day <= civil.days_of_month(year, months))
    exists &= tf.where(half != "", (hour >= 1) & (hour <= 12), hour <= 23)
    exists &= (parts["minute"] <= 59) & (parts["second"] <= 59)
    exists &= (parts["zone_hours"] <= 23) & (parts["zone_minutes"] <= 59)
    hour = tf.where(half != "", hour % 12 + tf.where(half == "p", _int(12), 0), hour)
    seconds = ((civil.days(year, months, day) * 24 + hour) * 60 + parts["minute"]) * 60 + parts["second"]
    return seconds * civil.SECOND + parts["fraction"], exists


def _part(feature: Datetime, texts: tf.Tensor, name: str) -> tf.Tensor:
    """What stands for the part in each text [batch]; empty where it is left out."""
    return tf.strings.regex_replace(texts, pattern(feature.format, part=name), r"\1")


def _number(texts: tf.Tensor, name: str) -> tf.Tensor:
    if name == "fraction":
        # Digits behind the sixth are finer than a microsecond.
        texts = tf.strings.substr(texts + "000000", 0, 6)
    return tf.strings.to_number(tf.where(texts == "", "0", texts), tf.int64)


def _example(format: str) -> str:
    for directive, value in _LIKE:
        format = format.replace(directive, value)
    return format


def _int(value: int) -> tf.Tensor:
    return tf.constant(value, tf.int64)

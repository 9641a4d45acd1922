"""Points in time from text, or from the dates and timestamps of typed formats.

`pipeline/data/preprocessing/datetimes.py` reads the same texts when a model serves.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.text import NO_SUCH_TIME, SHOWN_TWICE, Problems, microseconds
from pipeline.data.schema import times
from pipeline.data.schema.feature_types import Datetime
from pipeline.data.schema.times import MARKS, NUMBERS, pattern


def from_text(feature: Datetime, cells: pa.StringArray, problems: Problems) -> pa.Int64Array:
    """Microseconds since 1970 [rows] of `cells` [rows]; null where there is none."""
    parts = pc.extract_regex(cells, pattern(feature.format))
    problems.add(pc.and_(cells.is_valid(), parts.is_null()), f"not a date as {feature.format}")
    numbers = {name: _whole(parts.field(name), name) for name in NUMBERS}
    is_short = pc.equal(pc.utf8_length(parts.field("year")), 2).fill_null(False).to_numpy(False)
    full = times.full_year(numbers["year"], feature.first_year)
    numbers["year"] = np.where(is_short, full, numbers["year"])
    given = {name: pc.not_equal(parts.field(name), "").fill_null(False).to_numpy(False) for name in MARKS}
    is_afternoon = pc.equal(pc.utf8_lower(parts.field("half")), "p").fill_null(False).to_numpy(False)
    is_behind = pc.equal(parts.field("sign"), "-").fill_null(False).to_numpy(False)
    local, exists = civil_time(numbers, is_half_day=given["half"], is_afternoon=is_afternoon)
    has_offset = given["utc"] | given["sign"]
    written = (numbers["zone_hours"] * 3600 + numbers["zone_minutes"] * 60) * np.where(is_behind, -1, 1)
    is_day = pc.equal(parts.field("hour"), "").fill_null(True).to_numpy(False)
    clocks = _Clocks(feature.zone, local, is_day=is_day)
    clocks.add_to(problems, parts.is_valid(), exists & ~has_offset)
    offset = np.where(has_offset, written, clocks.offset)
    return _existing(local - offset * times.SECOND, exists, parts.is_valid(), problems)


def from_timestamps(feature: Datetime, cells: pa.Array, problems: Problems) -> pa.Int64Array:
    """Microseconds since 1970 [rows] of dates or timestamps [rows]; one without a zone is local time."""
    is_moment = pa.types.is_timestamp(cells.type) and cells.type.tz is not None
    is_day = pa.types.is_date(cells.type)
    cells = microseconds(cells, problems)
    moments = cells.fill_null(0).to_numpy()
    if not is_moment:
        clocks = _Clocks(feature.zone, moments, is_day=np.full(len(moments), is_day))
        clocks.add_to(problems, cells.is_valid(), np.ones(len(moments), bool))
        moments = moments - clocks.offset * times.SECOND
    exists = (moments >= times.FIRST) & (moments <= times.LAST)
    return _existing(moments, exists, cells.is_valid(), problems)


def civil_time(
    parts: Mapping[str, np.ndarray], *, is_half_day: np.ndarray, is_afternoon: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since 1970 as the clock shows them, int64 [rows], and whether there is such a time."""
    year, month, day, hour = (parts[name] for name in ("year", "month", "day", "hour"))
    exists = (year >= 1) & (month >= 1) & (month <= 12)
    months = np.clip(month, 1, 12)
    exists &= (day >= 1) & (day <= times.days_of_month(year, months))
    exists &= np.where(is_half_day, (hour >= 1) & (hour <= 12), hour <= 23)
    exists &= (parts["minute"] <= 59) & (parts["second"] <= 59)
    exists &= (parts["zone_hours"] <= 23) & (parts["zone_minutes"] <= 59)
    hour = np.where(is_half_day, hour % 12 + 12 * is_afternoon, hour)
    seconds = ((times.days(year, months, day) * 24 + hour) * 60 + parts["minute"]) * 60 + parts["second"]
    return seconds * times.SECOND + parts["fraction"], exists


def _whole(texts: pa.StringArray, name: str) -> np.ndarray:
    """Returns int64 [rows]; 0 where the part is not there, 1 to 12 where it is the name of a month."""
    if name == "month":
        names = pc.utf8_slice_codeunits(pc.utf8_lower(texts), 0, 3)
        index = pc.index_in(names, value_set=pa.array(times.MONTHS))
        texts = pc.coalesce(pc.add(index, 1).cast(pa.string()), texts)
    if name == "fraction":
        # Digits after the sixth are finer than a microsecond.
        texts = pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 6, "0"), 0, 6)
    texts = pc.if_else(pc.equal(texts, ""), "0", texts).fill_null("0")
    return texts.cast(pa.int64()).to_numpy()


class _Clocks:
    """The local times of a zone, as `local` microseconds, int64 [rows], and their meaning.

    `offset` is how many seconds the zone is ahead of UTC, the earlier one where clocks show a time twice.
    """

    def __init__(self, zone: str, local: np.ndarray, *, is_day: np.ndarray) -> None:
        self.zone, self.is_day = zone, is_day
        self.offset, skipped, self.is_twice = _at_wall(zone, local // times.SECOND)
        # A day whose midnight is skipped is still a day.
        whole = _at_wall(zone, local // times.SECOND + 86_399)[1] if is_day.any() else skipped
        self.is_skipped = skipped & (~is_day | whole)

    def add_to(self, problems: Problems, present: pa.BooleanArray, are_local: np.ndarray) -> None:
        """Adds the rows whose local time the clocks never show; `are_local` marks local times."""
        skipped = pa.array(self.is_skipped & are_local)
        problems.add(pc.and_(present, skipped), f"a time that the clocks of {self.zone} skip")
        twice = pc.and_(present, pa.array(self.is_twice & are_local & ~self.is_day))
        problems.note(SHOWN_TWICE, np.flatnonzero(twice.to_numpy(zero_copy_only=False)).tolist())


def _at_wall(zone: str, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns offsets from UTC, which times are skipped, and which are shown twice, each [rows]."""
    table = times.zone_changes(zone)
    seconds = seconds - np.maximum(0, (seconds - times.FOLDED_FROM) // times.PERIOD) * times.PERIOD
    position = np.searchsorted(np.array(table.wall, np.int64), seconds, "right")
    offsets, end = np.array(table.offsets, np.int64), np.array(table.ends, np.int64)[position]
    offset, later = offsets[position], offsets[np.minimum(position + 1, len(offsets) - 1)]
    skipped = seconds - offset >= end
    return offset, skipped, ~skipped & (seconds - later >= end)


def _existing(
    moments: np.ndarray, exists: np.ndarray, present: pa.BooleanArray, problems: Problems
) -> pa.Int64Array:
    problems.add(pc.and_(present, pa.array(~exists)), NO_SUCH_TIME)
    return pc.if_else(pc.and_(present, pa.array(exists)), pa.array(moments), pa.scalar(None, pa.int64()))

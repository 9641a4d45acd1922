"""Calendar arithmetic on whole arrays: only operators, so that NumPy and TensorFlow run the same formulas.

Arguments and results are int64 arrays or tensors of one shape. Days count from 1970-01-01, in the Gregorian
calendar extended to earlier years. After H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
"""

import bisect
import dataclasses
import datetime
import functools
import itertools
import re
import zoneinfo
from collections.abc import Mapping
from typing import TypeVar

Numbers = TypeVar("Numbers")  # np.ndarray or tf.Tensor, int64

SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
NEVER = (1 << 63) - 1
NOT_A_TIME = -(1 << 63)  # stands for a missing time; NumPy's NaT is the same number
_MINUTE = 60 * SECOND
# Limits of the years 1 to 9999 on the clocks of any zone, which differ from UTC by less than a day.
FIRST, LAST = -719_163 * DAY + _MINUTE, 2_932_898 * DAY - _MINUTE - 1

_FROM_MARCH_OF_YEAR_0 = 719_468  # days to 1970-01-01
_DAYS_OF_400_YEARS = 146_097


def days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days of a date; `month` must be 1 … 12, `day` may be any number."""
    months = (month + 9) % 12  # from March, so that a leap day is the last of its year
    year = year - months // 10
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (306 * months + 5) // 10 + day - 1 - _FROM_MARCH_OF_YEAR_0


def days_of_month(year: Numbers, month: Numbers) -> Numbers:
    return days(year + month // 12, month % 12 + 1, 1) - days(year, month, 1)


def month_index(days: Numbers) -> Numbers:
    """The month of a day: 0 is January."""
    day = (days + _FROM_MARCH_OF_YEAR_0) % _DAYS_OF_400_YEARS
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day = day - (365 * year + year // 4 - year // 100)
    return ((5 * day + 2) // 153 + 2) % 12


def weekday_index(days: Numbers) -> Numbers:
    """The day of the week of a day: 0 is Monday."""
    return (days + 3) % 7


# --- How a date and a time are written: each format is one regular expression of RE2, for Arrow and
# TensorFlow.

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# The first year that two digits mean: 69 … 99 are 1969 … 1999, 00 … 68 are 2000 … 2068 (POSIX).
FIRST_YEAR = 1969
LAST_FIRST_YEAR = 9900

_ONE_OR_TWO, _TWO = "[0-9]{1,2}", "[0-9]{2}"
_NAME = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = "(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
_ZONE = "(?: ?(?:{utc}|{sign}{zone_hours}(?::?{zone_minutes})?))?"
_TIME = "(?:[T ]{hour}:{minute}(?::{second}(?:[.,]{fraction})?)?(?: ?{half}[Mm])?" + _ZONE + ")?"
_TIME_IN_DIGITS = "[T ]?{hour}{minute}(?:{second}(?:[.,]{fraction})?)?" + _ZONE

# The parts of each format. In formats of digits only, a month, a day and an hour have two digits.
_PATTERNS: Mapping[str, str] = {
    "%Y-%m-%d": "{year}-{month}-{day}" + _TIME,
    "%Y/%m/%d": "{year}/{month}/{day}" + _TIME,
    "%m/%d/%Y": "{month}/{day}/{year}" + _TIME,
    "%d/%m/%Y": "{day}/{month}/{year}" + _TIME,
    "%d.%m.%Y": "{day}[.]{month}[.]{year}" + _TIME,
    "%d-%m-%Y": "{day}-{month}-{year}" + _TIME,
    "%m-%d-%Y": "{month}-{day}-{year}" + _TIME,
    "%d-%b-%Y": "{day}-{month}-{year}" + _TIME,
    "%d %b %Y": _WEEKDAY + "{day}[.]? +{month}[.,]? +{year}" + _TIME,
    "%b %d, %Y": _WEEKDAY + "{month}[.]? +{day}(?:st|nd|rd|th)?,? +{year}" + _TIME,
    "%m/%d/%y": "{month}/{day}/{year}" + _TIME,
    "%d/%m/%y": "{day}/{month}/{year}" + _TIME,
    "%d.%m.%y": "{day}[.]{month}[.]{year}" + _TIME,
    "%d-%m-%y": "{day}-{month}-{year}" + _TIME,
    "%m-%d-%y": "{month}-{day}-{year}" + _TIME,
    "%y-%m-%d": "{year}-{month}-{day}" + _TIME,
    "%y/%m/%d": "{year}/{month}/{day}" + _TIME,
    "%d-%b-%y": "{day}-{month}-{year}" + _TIME,
    "%d %b %y": _WEEKDAY + "{day}[.]? +{month}[.,]? +{year}" + _TIME,
    "%Y%m%d": "{year}{month}{day}" + _TIME,
    "%Y%m%d%H%M%S": "{year}{month}{day}" + _TIME_IN_DIGITS,
}

FORMATS = tuple(_PATTERNS)
OF_DIGITS = tuple(format for format in FORMATS if format.startswith("%Y%m%d"))
NUMBERS = ("year", "month", "day", "hour", "minute", "second", "fraction", "zone_hours", "zone_minutes")
MARKS = ("half", "utc", "sign")
_PARTS: Mapping[str, str] = {
    "year": "[0-9]{4}",
    "month": _ONE_OR_TWO,
    "day": _ONE_OR_TWO,
    "hour": _ONE_OR_TWO,
    "minute": _TWO,
    "second": _TWO,
    "fraction": "[0-9]{1,9}",
    "half": "[AaPp]",
    "utc": "Z|z|UTC|GMT",
    "sign": "[+-]",
    "zone_hours": _TWO,
    "zone_minutes": _TWO,
}
_IN_FORMAT: Mapping[str, Mapping[str, str]] = {  # how each directive combines the parts
    "%b": {"month": _NAME},
    "%y": {"year": "[0-9]{4}|[0-9]{2}"},
    "%Y%m%d": {"month": _TWO, "day": _TWO},
    "%H": {"hour": _TWO},
}


def pattern(format: str, *, part: str | None = None) -> str:
    """The expression of a whole text in this format. It has a group for `part` or, if none is named, for each
    part.

    The group of a part that the format does not have is empty.
    """
    parts = dict(_PARTS)
    for directive, changed in _IN_FORMAT.items():
        parts |= changed if directive in format else {}
    groups = {
        name: f"(?P<{name}>{one})" if part is None else f"({one})" if part == name else f"(?:{one})"
        for name, one in parts.items()
    }
    text = _PATTERNS[format]
    text += "".join(f"(?P<{name}>)" for name in parts if part in (None, name) and f"{{{name}}}" not in text)
    return "^" + re.sub(r"\{([a-z_]+)\}", lambda found: groups[found[1]], text) + "$"


def full_year(year: Numbers, first_year: int) -> Numbers:
    """The year that the two digits `year` mean, among the hundred years from `first_year` on."""
    return (year - first_year) % 100 + first_year


def spelled(format: str, moment: str, offset: str = "") -> str:
    """`moment`, as NumPy writes it (1999-02-01T07:05:30.500000), in this format and with this offset.

    A year always has four digits, which `%y` reads too.
    """
    date, time = moment.split("T")
    year, month, day = date.split("-")
    values = {"%Y": year, "%y": year, "%m": month, "%d": day, "%b": MONTHS[int(month) - 1].title()}
    if "%H" in format:
        digits, dot, fraction = time.replace(":", "").partition(".")
        return _filled(format.partition("%H")[0], values) + digits + dot + fraction + offset
    return f"{_filled(format, values)}T{time}{offset}"


def _filled(format: str, values: Mapping[str, str]) -> str:
    for directive, value in values.items():
        format = format.replace(directive, value)
    return format


# --- Tables of when a time zone changes its offset from UTC, because TensorFlow knows no time zones.

FOLDED_FROM = 2_114_380_800  # 2037-01-01: from here on, zones change by rules that repeat
PERIOD = 146_097 * 86_400  # every 400 years, seconds

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SEARCHED_FROM = -6_000_000_000  # 1779, before any zone had a standard time
_STEP = 7 * 86_400  # a step of the search: no zone changes and changes back within a week


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZoneChanges:
    """The offset `offsets[i]`, in seconds, holds before `utc[i]`; the last one holds from `utc[-1]` on.

    `wall[i]` is the same moment in local time. As in Python's datetime, a local time that occurs twice means
    the earlier one. A local time that a change skips, with the offset from before the change, is not before
    `utc[i]`.
    """

    utc: tuple[int, ...]
    wall: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """The moments until which the offsets hold."""
        return (*self.utc, NEVER)


@functools.cache
def zone_changes(zone: str) -> ZoneChanges:
    """The changes of an IANA zone; raises zoneinfo.ZoneInfoNotFoundError or ValueError if there is none."""
    info = zoneinfo.ZoneInfo(zone)
    steps = range(_SEARCHED_FROM, FOLDED_FROM + PERIOD + 2 * _STEP, _STEP)
    marks = [(second, _offset(info, second)) for second in steps]
    utc, offsets = [], [marks[0][1]]
    for (start, before), (end, after) in itertools.pairwise(marks):
        if before != after:
            differs = functools.partial(_differs, info, before)
            utc.append(bisect.bisect_left(range(start, end), True, key=differs) + start)
            offsets.append(after)
    wall = [second + max(pair) for second, pair in zip(utc, itertools.pairwise(offsets), strict=True)]
    return ZoneChanges(utc=tuple(utc), wall=tuple(wall), offsets=tuple(offsets))


def _differs(info: zoneinfo.ZoneInfo, offset: int, second: int) -> bool:
    return _offset(info, second) != offset


def _offset(info: zoneinfo.ZoneInfo, second: int) -> int:
    """Seconds that local time is ahead of UTC."""
    moment = (_EPOCH + datetime.timedelta(seconds=second)).astimezone(info)
    return int(moment.utcoffset().total_seconds())

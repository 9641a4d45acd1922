"""How a date and a time are written: one regular expression a format, in the syntax of RE2.

Arrow (conversion) and TensorFlow (serving) both use RE2, so both read the same texts. Standard library only.
"""

import re
from collections.abc import Mapping

_ONE_OR_TWO, _TWO = "[0-9]{1,2}", "[0-9]{2}"

# The date of each format by its parts; a time of day and an offset from UTC may follow it.
_DATES: Mapping[str, str] = {
    "%Y-%m-%d": "{year}-{month}-{day}",
    "%Y/%m/%d": "{year}/{month}/{day}",
    "%m/%d/%Y": "{month}/{day}/{year}",
    "%d/%m/%Y": "{day}/{month}/{year}",
    "%d.%m.%Y": "{day}[.]{month}[.]{year}",
    "%d-%m-%Y": "{day}-{month}-{year}",
    "%m-%d-%Y": "{month}-{day}-{year}",
    "%Y%m%d": "{year}{month}{day}",
}
_TIME = "(?:[T ]{hour}:{minute}(?::{second}(?:[.,]{fraction})?)?(?: ?{half}[Mm])?{zone})?"
_ZONE = "(?: ?(?:{utc}|{sign}{zone_hours}(?::?{zone_minutes})?))?"

FORMATS = tuple(_DATES)
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
    "utc": "Z|z|UTC",
    "sign": "[+-]",
    "zone_hours": _TWO,
    "zone_minutes": _TWO,
}


def pattern(format: str, *, part: str | None = None) -> str:
    """The expression of a whole text in this format. It has a group for `part` or, without one, for each."""
    parts = _PARTS | ({"month": _TWO, "day": _TWO} if format == "%Y%m%d" else {})
    groups = {
        name: f"(?P<{name}>{one})" if part is None else f"({one})" if part == name else f"(?:{one})"
        for name, one in parts.items()
    }
    text = _DATES[format] + _TIME.replace("{zone}", _ZONE)
    return "^" + re.sub(r"\{([a-z_]+)\}", lambda found: groups[found[1]], text) + "$"

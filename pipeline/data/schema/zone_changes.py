"""When a time zone changes its offset from UTC, as tables to search: TensorFlow knows no time zones.

Standard library only: Beam workers import this file.
"""

import bisect
import dataclasses
import datetime
import functools
import itertools
import zoneinfo

FOLDED_FROM = 2_114_380_800  # 2037-01-01: from here on, zones change by rules that repeat
PERIOD = 146_097 * 86_400  # every 400 years, seconds

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SEARCHED_FROM = -6_000_000_000  # 1779, before any zone had a standard time
_STEP = 7 * 86_400  # no zone changes and changes back within a week


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZoneChanges:
    """`offsets[i]` seconds hold before `utc[i]`, the last of them from `utc[-1]` on.

    `wall[i]` is the same moment in local time. A local time that a change repeats is the earlier
    one; one that it skips is counted on from before the change: both as Python's datetime reads them.
    """

    utc: tuple[int, ...]
    wall: tuple[int, ...]
    offsets: tuple[int, ...]


@functools.cache
def changes(zone: str) -> ZoneChanges:
    """The changes of an IANA zone; raises zoneinfo.ZoneInfoNotFoundError or ValueError if there is none."""
    info = zoneinfo.ZoneInfo(zone)
    steps = range(_SEARCHED_FROM, FOLDED_FROM + PERIOD + 2 * _STEP, _STEP)
    marks = [(second, _offset(info, second)) for second in steps]
    utc, offsets = [], [marks[0][1]]
    for (start, before), (end, after) in itertools.pairwise(marks):
        if before != after:
            utc.append(bisect.bisect_left(range(start, end), True, key=_is_not(info, before)) + start)
            offsets.append(after)
    wall = [second + max(pair) for second, pair in zip(utc, itertools.pairwise(offsets), strict=True)]
    return ZoneChanges(utc=tuple(utc), wall=tuple(wall), offsets=tuple(offsets))


def _is_not(info: zoneinfo.ZoneInfo, offset: int) -> functools.partial:
    return functools.partial(_differs, info, offset)


def _differs(info: zoneinfo.ZoneInfo, offset: int, second: int) -> bool:
    return _offset(info, second) != offset


def _offset(info: zoneinfo.ZoneInfo, second: int) -> int:
    """Seconds that local time is ahead of UTC."""
    moment = (_EPOCH + datetime.timedelta(seconds=second)).astimezone(info)
    return int(moment.utcoffset().total_seconds())

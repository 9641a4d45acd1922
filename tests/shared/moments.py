"""Points in time as datasets store them, counted by Python's datetime."""

import datetime

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970 of a moment with a time zone."""
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def is_skipped(moment: datetime.datetime, zone: datetime.tzinfo) -> bool:
    """Returns whether no clock shows it: going to UTC and back gives another time."""
    there = moment.replace(tzinfo=zone).astimezone(datetime.UTC).astimezone(zone)
    return there.replace(tzinfo=None) != moment


def is_twice(moment: datetime.datetime, zone: datetime.tzinfo) -> bool:
    """Returns whether clocks show it two times: before and after they are set back."""
    first, second = (moment.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first != second

"""Points in time as datasets store them, counted by Python's datetime."""

import datetime

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def microseconds(moment: datetime.datetime) -> int:
    """Microseconds since 1970 of a moment with a time zone."""
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)

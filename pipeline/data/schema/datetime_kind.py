"""The kind `datetime`: a point in time, stored as int64 microseconds since 1970-01-01 00:00 UTC."""

import dataclasses
import zoneinfo
from typing import ClassVar

from pipeline.data.schema import civil
from pipeline.data.schema.datetime_format import FORMATS
from pipeline.data.schema.feature import Dtype, Feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class Datetime(Feature):
    """A date, possibly with a time of day and an offset from UTC, as `format` writes the date.

    A time without an offset is local time in `zone`, an IANA name. A model gets hour, weekday and month in
    that zone. A missing time is marked with the smallest int64; a `default` is in microseconds.
    """

    format: str = "%Y-%m-%d"
    zone: str = "UTC"
    kind: ClassVar[str] = "datetime"

    @property
    def dtype(self) -> Dtype:
        return "int64"

    @property
    def marker(self) -> int:
        return civil.NOT_A_TIME

    @property
    def is_text_in_requests(self) -> bool:
        return True

    def _check(self) -> None:
        self._require_one_of("format", FORMATS)
        self._require(_is_zone(self.zone), "zone", self.zone, "an IANA time zone such as Europe/Zurich")
        self._require_number_as_default()
        default = self.default
        inside = default is None or civil.FIRST <= default <= civil.LAST
        self._require(inside, "default", default, "microseconds since 1970, in the years 1 to 9999")


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True

"""Points in time from dates, timestamps or text in ISO 8601."""

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.problems import Problems, convert, decode

_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


def microseconds(cells: pa.Array, problems: Problems) -> pa.Array:
    """int64 [rows]: microseconds since 1970-01-01 UTC of `cells` [rows]; null where there is none.

    Without a zone, a time is UTC. What is no point in time becomes null and a problem.
    """
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        return cells.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    text = pc.utf8_trim_whitespace(decode(cells, problems))
    text = pc.if_else(pc.equal(text, ""), None, text)
    # Of one column, Arrow reads times with a zone or those without.
    zoned = pc.match_substring_regex(text, _ZONE)
    of_zone = _converted(pc.if_else(zoned, text, None), pa.timestamp("us", "UTC"), problems)
    of_none = _converted(pc.if_else(zoned, None, text), pa.timestamp("us"), problems)
    return pc.coalesce(of_zone, of_none)


def _converted(text: pa.Array, kind: pa.TimestampType, problems: Problems) -> pa.Array:
    return convert(text.cast(pa.string()), kind, "not a point in time", problems).cast(pa.int64())

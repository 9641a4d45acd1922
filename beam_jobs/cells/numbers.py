"""Numbers from text, numbers or points in time, checked against what the record can hold."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.problems import Problems, convert
from pipeline.data.schema.feature import Feature

_FLOAT32_MAXIMUM = float(np.finfo(np.float32).max)


def number(feature: Feature, cells: pa.Array, problems: Problems) -> pa.Array:
    """Numbers [rows] of `cells` [rows]: int64 or, of a float32 feature, float64; null where there is none."""
    if feature.dtype == "int64":
        if pa.types.is_string(cells.type):
            # Arrow reads 0x1F as 31; nothing else in the pipeline does.
            problems.add(pc.match_substring(cells, "x", ignore_case=True), "not a whole number")
        return convert(_seconds(cells), pa.int64(), "not a whole number", problems)
    if pa.types.is_string(cells.type):
        values = convert(cells, pa.float64(), "not a number", problems)
    else:
        values = _seconds(cells).cast(pa.float64(), safe=False)  # whole numbers from 2**53 on are rounded
    problems.add(pc.invert(pc.is_finite(values)), "not a finite number")
    problems.add(pc.greater(pc.abs(values), _FLOAT32_MAXIMUM), "too large for float32")
    return values


def _seconds(cells: pa.Array) -> pa.Array:
    """Points in time as seconds since 1970-01-01, everything else as it is."""
    if not (pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type)):
        return cells
    microseconds = cells.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.divide(microseconds.cast(pa.float64(), safe=False), 1e6)

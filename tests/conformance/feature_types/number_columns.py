"""Columns of numbers that float32 cannot hold, from raw cells to what a model is fed: how far off that is.

  python -m tests.conformance.feature_types.number_columns

prints a table of them. `stored` is the distance from what float64 makes of the numbers in the records, `raw`
from what it makes of the raw cells, `served` what a request with these differs in from the records; all in
standard deviations. A column may be refused instead.
"""

import dataclasses
import math
import sys
from collections.abc import Sequence

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

import numpy as np
import pyarrow as pa
import tensorflow as tf

from beam_jobs.cells import typed
from beam_jobs.cells.typed import arrow_schema
from beam_jobs.checks import validate
from beam_jobs.checks.anomalies import Policy
from beam_jobs.conversion.records import encode
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.preprocessing.requests import clean_requests
from pipeline.data.reading.parsing import parsing_spec
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from tests.shared.measuring import measured

ROWS = 900
_DRAW = np.random.default_rng(0)
_EVEN = _DRAW.permutation(np.linspace(0, 1, ROWS))
_NORMAL = _DRAW.normal(size=ROWS)
_NOW = 1_700_000_000  # seconds of Unix time


def _whole(first: int, width: int) -> list[int]:
    return [first + int(width * part) for part in _EVEN]


_HOURS = _whole(_NOW, 3600)
_TOWN = (-73.9 + 0.03 * _NORMAL).round(6).tolist()

# The type that they are stored as, maybe with an offset, and the cells.
COLUMNS: dict[str, tuple[str, Sequence]] = {
    "unix s of an hour": ("int64", _HOURS),
    "unix ms of an hour": ("int64", _whole(_NOW * 10**3, 3600 * 10**3)),
    "unix ns of an hour": ("int64", _whole(_NOW * 10**9, 3600 * 10**9)),
    "unix ns of a millisecond": ("int64", _whole(_NOW * 10**9, 10**6)),
    "2^60 and 2^40 more": ("int64", _whole(1 << 60, 1 << 40)),
    "2^60 and 1,000 more": ("int64", _whole(1 << 60, 1000)),
    "all of int64": ("int64", [-(1 << 63), (1 << 63) - 1, *_whole(-(1 << 62), 1 << 63)]),
    "unix s of an hour, as float32": ("float32", _HOURS),
    f"unix s of an hour less {_NOW:g}": (f"float32 less {_NOW}", _HOURS),
    "unix s of a day, as float32": ("float32", _whole(_NOW, 86_400)),
    "unix s of a year, as float32": ("float32", _whole(_NOW, 31_536_000)),
    "degrees of a town": ("float32", _TOWN),
    "degrees of a town less -73.9": ("float32 less -73.9", _TOWN),
    "1 and 1e-9 more": ("float32", (1 + 1e-9 * _EVEN).tolist()),
    "1 and 1e-9 more less 1": ("float32 less 1", (1 + 1e-9 * _EVEN).tolist()),
    **{
        f"spread of {spread:g}": ("float32", (spread * _NORMAL).tolist())
        for spread in (1e-38, 1e-30, 1e-12, 1e-9, 1e-3, 1.0, 1e9, 1e20, 1e30, 1e38)
    },
    "always 0": ("float32", [0.0] * ROWS),
    "always 0.1": ("float32", [0.1] * ROWS),
    "always 1e30": ("float32", [1e30] * ROWS),
    "all missing": ("float32", [None] * ROWS),
    "half missing": ("float32", [None if i % 2 else float(x) for i, x in enumerate(_NORMAL)]),
    "with infinities": ("float32", [math.inf, -math.inf, *_NORMAL.tolist()]),
    "beyond float32": ("float32", [1e39, *_NORMAL.tolist()]),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Largest distances in standard deviations, and what was said of the column."""

    stored: float = 0.0
    raw: float = 0.0
    served: float = 0.0
    ids: int = 0  # different quantile bins
    rejected: int = 0  # rows
    said: str = ""
    refused: str = ""


def outcome(name: str) -> Outcome:
    """What becomes of one of the `COLUMNS`: converted, measured, and preprocessed in a graph."""
    number, cells = COLUMNS[name]
    dtype, _, offset = number.partition(" less ")
    missing = "mark" if dtype == "float32" else "reject"
    feature = Numeric(name="x", number=dtype, missing=missing, offset=float(offset or 0))
    schema = Schema(name="one", features=(feature,))
    raw = pa.array(cells)
    rows, kept = _typed(feature, schema, raw)
    rejected = len(raw) - len(kept)
    statistics = measured(schema, rows)
    said = "; ".join(
        found.message for found in validate.conformance_anomalies({"all": statistics}, schema, Policy())
    )
    try:
        preprocess = Preprocess(schema, statistics)
    except InputError as error:
        return Outcome(said=said, refused=str(error), rejected=rejected)
    records = tf.constant(encode(rows, schema).to_pylist())
    stored = tf.io.parse_example(records, parsing_spec(schema))
    fed = tf.function(preprocess)(stored)
    found = fed["numeric"].numpy()[:, 0].astype(np.float64)
    served = tf.function(lambda x: preprocess(clean_requests({"x": x}, schema)))(_requested(feature, kept))
    return Outcome(
        stored=_farthest(found, stored["x"].numpy(), rows.column("x")),
        raw=_farthest(found, kept.to_numpy(zero_copy_only=False), kept),
        served=float(np.abs(served["numeric"].numpy()[:, 0] - found).max()),
        ids=len(np.unique(fed["categories"].numpy())),
        rejected=rejected,
        said=said,
    )


def _typed(feature: Numeric, schema: Schema, cells: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
    """The rows that conform, and their raw cells."""
    column = typed.parse(feature, cells)
    order = pa.array(np.arange(len(cells)), pa.uint64())
    rows = pa.record_batch([order, column.values], schema=arrow_schema(schema))
    good = pa.array([row for row in range(len(cells)) if row not in column.problems], pa.int64())
    return rows.take(good), cells.take(good)


def _requested(feature: Numeric, cells: pa.Array) -> tf.Tensor:
    """The cells as the signature `raw` takes them."""
    if feature.is_text_in_requests:
        return tf.constant(["" if cell is None else repr(cell) for cell in cells.to_pylist()])
    return tf.constant(cells.to_numpy(zero_copy_only=False).astype(feature.dtype))


def _farthest(found: np.ndarray, values: np.ndarray, raw: pa.Array) -> float:
    """The largest difference from the standardised `values`, by the moments of the `raw` ones."""
    present = raw.drop_null().to_pylist()
    if not present:
        return float(np.abs(found).max())
    whole = isinstance(present[0], int)
    # Differences of Python's integers are exact.
    mean = sum(present) // len(present) if whole else math.fsum(present) / len(present)
    apart = np.array([float(value - mean) for value in present])
    offset = apart.mean() if whole else 0.0
    widest = np.abs(apart).max()  # its square may be beyond float64, or below it
    std = math.sqrt(np.mean(((apart - offset) / widest) ** 2)) * widest if widest else 0.0
    if not std:
        return float(np.abs(found).max())  # nothing is farther than 0 from the one value
    valid = raw.is_valid().to_numpy(zero_copy_only=False)
    given = [float((int(value) if whole else float(value)) - mean) for value in values[valid]]
    return float(np.abs(found[valid] - (np.array(given) - offset) / std).max())


def main() -> None:
    for name in COLUMNS:
        of = outcome(name)
        said = f"  said: {of.said}" if of.said else ""
        left = f"  {of.rejected} rows rejected" if of.rejected else ""
        what = f"stored {of.stored:.1e}  raw {of.raw:.1e}  served {of.served:.1e}  {of.ids} bins"
        what = f"refused: {of.refused}" if of.refused else what
        print(f"{name:30}  {COLUMNS[name][0]:21}  {what}{left}{said}")


if __name__ == "__main__":
    sys.exit(main())

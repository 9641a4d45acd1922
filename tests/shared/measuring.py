"""Measures typed rows as workers do, each batch by itself; what each gathered crosses as bytes."""

import pyarrow as pa

from beam_jobs.conversion.statistics import MergedStatisticsFn, add_rows
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from pipeline.data.statistics.accumulators import Gathered


def gathered(schema: Schema, rows: pa.RecordBatch) -> list[Gathered]:
    into = encoding.merged((), schema)
    add_rows(into, rows, schema)
    return into


def measured(schema: Schema, *batches: pa.RecordBatch) -> SplitStatistics:
    """Statistics of batches that different workers saw."""
    fn = MergedStatisticsFn(schema)
    written = [encoding.dumps_accumulator(gathered(schema, batch)) for batch in batches]
    parts = [encoding.loads_accumulator(each, schema) for each in written]
    return encoding.statistics_of(fn.extract_output(fn.merge_accumulators(parts)), schema)

"""Measures typed rows as workers do, each batch by itself; what each gathered crosses as bytes."""

import pyarrow as pa

from beam_jobs.statistics.combine import MergedStatisticsFn, add_rows
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_bytes, accumulator_file
from pipeline.data.statistics.accumulators import Gathered


def gathered(schema: Schema, rows: pa.RecordBatch) -> list[Gathered]:
    into = accumulator_file.merged((), schema)
    add_rows(into, rows, schema)
    return into


def measured(schema: Schema, *batches: pa.RecordBatch) -> SplitStatistics:
    """Statistics of batches that different workers saw."""
    fn = MergedStatisticsFn(schema)
    written = [accumulator_bytes.dumps(gathered(schema, batch)) for batch in batches]
    parts = [accumulator_bytes.loads(each, schema) for each in written]
    return accumulator_file.statistics_of(fn.extract_output(fn.merge_accumulators(parts)), schema)

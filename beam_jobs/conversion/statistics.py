"""Statistics of every feature, as Beam combines them: any order gives the same bits."""

from collections.abc import Iterable

import apache_beam as beam
import pyarrow as pa

from beam_jobs.cells.typed import ORDER_COLUMN, ROW_COLUMN
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import encoding
from pipeline.data.statistics.accumulators import Gathered


class MergedStatisticsFn(beam.CombineFn):
    """Accumulators of parts of one split → `accumulator_bytes` of the whole."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def create_accumulator(self) -> list[Gathered]:
        return encoding.merged((), self._schema)

    def add_input(self, accumulator: list[Gathered], part: list[Gathered]) -> list[Gathered]:
        return self.merge_accumulators([accumulator, part])

    def merge_accumulators(self, accumulators: Iterable[list[Gathered]]) -> list[Gathered]:
        return encoding.merged(accumulators, self._schema)

    def extract_output(self, accumulator: list[Gathered]) -> bytes:
        return encoding.dumps_accumulator(accumulator)


def add_rows(gathered: list[Gathered], rows: pa.RecordBatch, schema: Schema) -> None:
    """Adds typed rows, of `cells.typed.arrow_schema`, to the accumulators of a split."""
    # The order hash is the same for all rows of a group, so a sample by it would be of few groups.
    order = rows.column(ROW_COLUMN if schema.group else ORDER_COLUMN).to_numpy()
    for feature, each in zip(schema.features, gathered, strict=True):
        each.add(order, rows.column(feature.name))

"""Statistics of every feature, as Beam combines them: in any order, to the same bits."""

from collections.abc import Iterable

import apache_beam as beam
import pyarrow as pa

from beam_jobs.cells.rows import ORDER_COLUMN
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics.accumulators import Gathered, gathered_of


class SplitStatisticsFn(beam.CombineFn):
    """Batches of typed rows (`cells.rows.arrow_schema`) of one split → SplitStatistics."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def create_accumulator(self) -> list[Gathered]:
        return [gathered_of(feature) for feature in self._schema.features]

    def add_input(self, accumulator: list[Gathered], rows: pa.RecordBatch) -> list[Gathered]:
        order = rows.column(ORDER_COLUMN).to_numpy()
        for feature, gathered in zip(self._schema.features, accumulator, strict=True):
            gathered.add(order, rows.column(feature.name))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Gathered]]) -> list[Gathered]:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            for into, gathered in zip(merged, accumulator, strict=True):
                into.merge(gathered)
        return merged

    def extract_output(self, accumulator: list[Gathered]) -> SplitStatistics:
        pairs = zip(self._schema.features, accumulator, strict=True)
        features = {feature.name: gathered.result(feature) for feature, gathered in pairs}
        first = next(iter(features.values()))
        return SplitStatistics(examples=first.present + first.missing, features=features)


class MergedStatisticsFn(SplitStatisticsFn):
    """Accumulators of parts of one split → SplitStatistics."""

    def add_input(self, accumulator: list[Gathered], part: list[Gathered]) -> list[Gathered]:
        return self.merge_accumulators([accumulator, part])

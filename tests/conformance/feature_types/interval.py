"""A feature kind that the product does not have, and what each room's table would say of it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells.text import Problems, clean_text, convert, decode
from beam_jobs.cells.typed import Cells, RawColumn
from beam_jobs.checks.anomalies import Anomaly, Policy
from beam_jobs.checks.records import Numbers
from beam_jobs.conversion.dataset import Metadata
from beam_jobs.schema.profiles import ColumnProfile
from pipeline.data.dataset.blocks import Field
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics
from pipeline.data.preprocessing.preprocess import InModel, Inputs, NumericInput
from pipeline.data.schema.feature import Dtype, Feature
from pipeline.data.schema.feature_types import FeatureTypeTable, Tensor
from pipeline.training.report.data import FeatureFormat


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval(Feature):
    """Two numbers, written `3..5`, of which neither is above `highest`."""

    highest: float = 100.0
    kind: ClassVar[str] = "interval"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return "float32"

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)


def _parse(feature: Interval, raw: RawColumn, problems: Problems) -> pa.Array:
    cells = clean_text(decode(raw.cells, problems), feature.clean)
    problems.add(cells.is_null(), "missing")
    ends = pc.extract_regex(cells, r"^(?P<low>.+?)\.\.(?P<high>.+)$")
    problems.add(ends.is_null(), "not low..high")
    low, high = (
        convert(ends.field(name), pa.float64(), "not a number", problems) for name in ("low", "high")
    )
    problems.add(pc.greater(high, feature.highest), f"above the highest of {feature.highest}")
    numbers = np.stack([pc.fill_null(end, 0.0).to_numpy() for end in (low, high)], axis=1)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), 2)


def _propose(profile: ColumnProfile) -> Interval | None:
    return Interval(name=profile.name) if all(".." in value for value in profile.values) else None


def _starts_below_zero(
    split: str, feature: Interval, measured: FeatureStatistics, policy: Policy
) -> Iterator[Anomaly]:
    if measured.numeric.minimum < 0:
        yield Anomaly(
            split=split,
            feature=feature.name,
            kind="out_of_domain",
            severity=policy.severity("out_of_domain"),
            message="an interval starts below zero",
        )


def _inputs(features: Sequence[Interval], statistics: SplitStatistics) -> Inputs:
    del statistics
    ends = [
        NumericInput(features=(feature.name,), transform=lambda pair: pair, width=2) for feature in features
    ]
    return Inputs(numeric=tuple(ends))


def entries(tables: Mapping[str, FeatureTypeTable]) -> dict[str, object]:
    """The entry for intervals in each table, by the module that holds it."""
    gathered, columns = "pipeline.data.statistics.accumulators", "pipeline.training.baselines.table"
    return {
        "beam_jobs.cells.typed": Cells(parse=_parse),
        "beam_jobs.conversion.dataset": Metadata(),
        "beam_jobs.schema.features": _propose,
        gathered: tables[gathered].entries[Tensor],
        "beam_jobs.checks.validate": (_starts_below_zero,),
        "beam_jobs.checks.records": lambda feature: Numbers(high=feature.highest),
        "pipeline.data.dataset.blocks": lambda feature: Field(dtype="<f4"),
        "pipeline.data.preprocessing.preprocess": InModel(inputs=_inputs),
        columns: tables[columns].entries[Tensor],
        "pipeline.training.replay.format": lambda feature, value: f"{value[0]:g}..{value[1]:g}",
        "pipeline.training.report.data": FeatureFormat(detail=lambda feature: "low..high"),
    }

"""Conversions in the process of the test: starting another one takes longer than any of them."""

import pathlib
from collections.abc import Sequence

from beam_jobs.checks import validate
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.conversion.plan import Plan, make_plan
from beam_jobs.launch.run import Run
from beam_jobs.sources.source import Input, Source
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.schema.schema import Schema


def converted(
    location: str,
    output: pathlib.Path,
    *,
    source: Source,
    schema: Schema,
    layout: str = "rows",
    shard_bytes: int = 1000,  # so few that there are several shards
    origins: bool = True,
    flags: Sequence[str] = (),
    rejected: float = 0.0,
    may_be_empty: bool = False,
    split: str = "",
) -> Dataset:
    """The dataset that `source` gives of what is at `location`; `rejected` is the largest fraction."""
    inputs = [Input(location=location, split=split, may_be_empty=may_be_empty)]
    plan = make_plan(inputs, source, schema, shard_bytes=shard_bytes, layout=layout, origins=origins)
    job = Conversion(
        source=source,
        schema=schema,
        plan=plan,
        rules=validate.parse_rules(severities=(), limits=(), baseline=None),
        run=Run(runner="FnApiRunner", beam_flags=tuple(flags), max_rejected_fraction=rejected),
        command="",
        may_be_empty=may_be_empty,
    )
    convert(job, output=str(output))
    return manifest_lib.open_dataset(output)


def plan_of(**given: object) -> Plan:
    """A plan to write rows; without inputs, fractions, shards and buckets where none are given."""
    nothing = {"input_splits": (), "fractions": {}, "shards": {}, "buckets": {}, "schema_fingerprint": ""}
    return Plan(layout="rows", **(nothing | given))

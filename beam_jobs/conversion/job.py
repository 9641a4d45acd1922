"""The job of `convert`: its graph, and what has to hold before a dataset is published."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import apache_beam as beam

from beam_jobs.checks import validate
from beam_jobs.conversion import dataset, summary
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.preparation import Prepare
from beam_jobs.conversion.shuffle import make_spill
from beam_jobs.conversion.statistics import MergedStatisticsFn
from beam_jobs.conversion.writer import MEASURED, NO_ROWS, WriteShard, WrittenShard
from beam_jobs.launch.outcome import LINES, NOTED, READ, REJECTED, Outcome, Outputs
from beam_jobs.launch.output import Destination
from beam_jobs.launch.run import Progress, Run, run_job
from beam_jobs.sources.source import InputSplit, Source
from beam_jobs.sources.tokens import remarks_of
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """A job that converts raw data by a plan and rules. Implements `launch.run.Job`."""

    source: Source
    schema: Schema
    plan: Plan
    rules: validate.Rules
    run: Run
    command: str  # the command line, as it was typed
    keeps_rejected_raw: bool = True  # whether a rejected row also shows the start of its raw value
    may_be_empty: bool = False

    doing: ClassVar[str] = "converting"
    file_type: ClassVar[type[WrittenShard]] = WrittenShard

    @property
    def input_splits(self) -> Sequence[InputSplit]:
        return self.plan.input_splits

    def build(self, pipeline: beam.Pipeline, *, directory: str, progress: Progress) -> Outputs:
        """Builds the graph: input splits → typed rows → shuffle → shards, and statistics by split."""
        spill = make_spill(directory, runner=self.run.runner)
        prepare = Prepare(
            self.source,
            self.schema,
            self.plan,
            spill=spill,
            progress=progress,
            keeps_rejected_raw=self.keeps_rejected_raw,
        )
        write = WriteShard(
            self.schema,
            self.plan,
            directory=directory,
            spill=spill,
            progress=progress,
            keeps_rejected_raw=self.keeps_rejected_raw,
        )
        prepared = (
            pipeline
            | "InputSplits" >> beam.Create(self.plan.input_splits)
            | "Prepare" >> beam.ParDo(prepare).with_outputs(READ, REJECTED, LINES, NOTED, main="rows")
        )
        empty = [(key, NO_ROWS) for key in self.plan.shard_keys()]
        written = (
            (prepared.rows, pipeline | "Shards" >> beam.Create(empty, reshuffle=False))
            | beam.Flatten()
            | "Shuffle" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(write).with_outputs(MEASURED, REJECTED, main="shards")
        )
        measured = (
            written[MEASURED]
            # Sent as bytes: the runner visits every object inside a value to learn its size.
            | "Statistics" >> beam.CombinePerKey(MergedStatisticsFn(self.schema))
        )
        return Outputs(
            read=prepared[READ],
            rejected=(prepared[REJECTED], written[REJECTED]),
            files=written.shards,
            lines=prepared[LINES],
            noted=prepared[NOTED],
            statistics=measured,
        )

    def check_reconciled(self, outcome: Outcome) -> None:
        dataset.check_reconciled(outcome, self.plan, self.schema)

    def publish(self, outcome: Outcome, destination: Destination) -> summary.Published:
        if not self.may_be_empty:
            dataset.check_not_empty(outcome, self.plan)
        leaked = dataset.leak_anomalies(outcome, self.plan, self.schema, self.rules.policy)
        leaked += dataset.leaked_groups(outcome, self.plan, self.schema, self.rules.policy)
        leaked += dataset.repeated_files(outcome, self.plan, self.rules.policy)
        statistics = dataset.statistics_of(outcome, self.plan, self.schema)
        verdict = validate.evaluate(statistics, self.schema, self.rules, leaked=leaked)
        manifest = dataset.publish(
            destination,
            outcome=outcome,
            plan=self.plan,
            schema=self.schema,
            statistics=statistics,
            verdict=verdict,
            conversion=summary.conversion(self.command, self.run, self.plan, outcome),
        )
        return summary.Published(
            manifest=manifest,
            rejected_reasons=outcome.rejected.reasons,
            anomalies=verdict.anomalies,
            notes_of_rows=outcome.notes,
            texts=outcome.counts,
            fractions=self._fractions(),
            are_groups=bool(self.schema.group),
            notes=(*validate.sentinel_notes(statistics, self.schema), *remarks_of(self.source)),
            were_leaks_counted=dataset.are_leaks_counted(self.plan, self.rules.policy),
        )

    def _fractions(self) -> Mapping[str, float]:
        """The share of each split that was asked; empty where an input names a split: it takes all it has."""
        if self.plan.has_named_splits:
            return {}
        return {split: float(fraction) for split, fraction in self.plan.fractions.items()}


def convert(conversion: Conversion, *, output: str) -> dict[str, object]:
    """Runs the job, publishes the dataset and gives the summary; a run that fails leaves nothing behind."""
    published = run_job(conversion, output=output)
    return summary.to_json(published, output, seconds=conversion.run.seconds)

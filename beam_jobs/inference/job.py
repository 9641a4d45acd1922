"""The job of batch inference: sources → examples → model → files, published whole or not at all."""

import dataclasses
import pathlib
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.ml.inference.base import RunInference

from beam_jobs import claim, failures, prepare, progress, rejected, runners
from beam_jobs.inference import batches, publish, tables
from beam_jobs.inference.model import ExportedModel
from beam_jobs.sources.source import Piece, Source
from pipeline.data import exported
from pipeline.data import schema as schema_lib
from pipeline.data.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What is predicted, from what, into what."""

    source: Source
    pieces: Sequence[Piece]
    model: pathlib.Path
    keys: tuple[str, ...]
    batch: int
    file_format: str
    max_rejected_fraction: float
    runner: str
    beam_flags: Sequence[str]


def build(
    pipeline: beam.Pipeline, job: Job, schema: Schema, *, directory: pathlib.Path, watched: progress.Progress
) -> None:
    """The job graph: sources → examples → model → files, and the outcome for `publish`."""
    reading = batches.reading_schema(schema, job.keys)
    made = (
        pipeline
        | "Pieces" >> beam.Create(list(enumerate(job.pieces)))
        | "Spread" >> beam.Reshuffle()
        | "Read"
        >> beam.ParDo(
            batches.MakeBatches(job.source, reading, rows=job.batch, progress=watched)
        ).with_outputs(prepare.READ, prepare.REJECTED, main="batches")
    )
    written = (
        made.batches
        | "Predict" >> RunInference(ExportedModel(str(job.model)))
        | "OfPiece" >> beam.Map(lambda predicted: (predicted.piece, predicted))
        | "Together" >> beam.GroupByKey()
        | "Write"
        >> beam.ParDo(
            tables.WritePredictions(
                schema.label,
                file_format=job.file_format,
                pieces=len(job.pieces),
                directory=str(directory),
                progress=watched,
            )
        )
    )
    left_out = made[prepare.REJECTED] | "Rejected" >> beam.CombineGlobally(rejected.CollectRejected())
    read = made[prepare.READ] | "RowsRead" >> beam.CombineGlobally(sum)
    _ = (
        pipeline
        | "Outcome" >> beam.Create([str(directory / publish.OUTCOME_FILE_NAME)])
        | "Save"
        >> beam.Map(
            publish.save_outcome,
            rows_read=beam.pvalue.AsSingleton(read),
            rejected=beam.pvalue.AsSingleton(left_out),
            files=beam.pvalue.AsList(written),
        )
    )


def predict(job: Job, *, output: pathlib.Path) -> dict[str, object]:
    """Runs the job and publishes the predictions; where it fails it leaves nothing behind."""
    export = exported.open_export(job.model)
    schema = schema_lib.load(job.model / schema_lib.FILE_NAME)
    options = runners.pipeline_options(job.runner, job.beam_flags)
    with failures.told_in_one_line(output), claim.claimed(output) as directory:
        watched = progress.Progress(path=str(directory / "progress"))
        runner = runners.make_runner(job.runner, options, directory=directory)
        pipeline = beam.Pipeline(runner=runner, options=options)
        build(pipeline, job, schema, directory=directory, watched=watched)
        with runners.bad_input_from_workers(), progress.shown(watched, "predicting"):
            pipeline.run().wait_until_finish()
        outcome = publish.load_outcome(directory / publish.OUTCOME_FILE_NAME)
        limit = job.max_rejected_fraction
        rejected.check_limit(outcome.rejected, rows_read=outcome.rows_read, limit=limit)
        publish.check_reconciled(outcome)
        return publish.publish(output, directory, outcome=outcome, model_digest=export["digest"])

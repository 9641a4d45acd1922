r"""Batch inference: what an exported model says about every row of raw data.

  python -m beam_jobs.predict --model=exports/census/1 --format=csv --input=new.csv \
      --output=predictions/2024-06-01 --keys=customer_id

--model is a directory that `python -m pipeline.export` wrote; its schema says how the input is read, exactly
as for training; a label column is not needed. Each row of <output>/predictions-*.parquet (or .tfrecord)
holds the --keys columns of its input row (or, without --keys, the file and row number it came from), then
`class` and `probabilities`, or `value` for a regression. Rows that do not conform are listed in
<output>/rejected/rejected.jsonl, within --max_rejected_fraction. <output>/predictions.json is written last:
a directory that has it is whole.

Flags that are not listed here go to Beam, for instance --direct_num_workers=2
--direct_running_mode=multi_processing.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import apache_beam as beam
from absl import app, flags
from apache_beam.ml.inference.base import RunInference

from beam_jobs import (
    command_line,
    commit,
    failures,
    prepare,
    progress,
    rejected,
    runners,
    source_flags,
    summary,
)
from beam_jobs.inference import batches, publish, tables
from beam_jobs.inference.model import ExportedModel
from beam_jobs.sources.files import parse_input
from beam_jobs.sources.source import Piece, Source
from pipeline.data import exported
from pipeline.data import schema as schema_lib
from pipeline.data.errors import answers_bad_input
from pipeline.data.schema import Schema

_MODEL = flags.DEFINE_string("model", None, "Exported model.")
_INPUT = flags.DEFINE_multi_string("input", None, "FILE, DIRECTORY or GLOB. Repeats.")
_OUTPUT = flags.DEFINE_string("output", None, "Directory to publish; must not exist, or be empty.")
_OUTPUT_FORMAT = flags.DEFINE_enum("output_format", "parquet", tables.FORMATS, "How predictions are stored.")
_KEYS = flags.DEFINE_list("keys", [], "Columns of the input to carry through.")
_BATCH = flags.DEFINE_integer("batch", 1024, "Rows in one call of the model, at most.", 1)
_MAX_REJECTED = flags.DEFINE_float(
    "max_rejected_fraction", 0.0, "Largest part of the rows that may be left out.", 0.0, 1.0
)
_RUNNER = flags.DEFINE_string("runner", "FnApiRunner", "Beam runner.")
_JSON = flags.DEFINE_string("json", None, "File to write the summary to, as JSON.")


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
    with failures.told_in_one_line(output), commit.claimed(output) as directory:
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


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    command_line.check_given({flag.name: flag.value for flag in (_MODEL, _INPUT, _OUTPUT)})
    command_line.check_local_files({"json": _JSON.value})
    inputs = [parse_input(text) for text in _INPUT.value]
    _, source = source_flags.source_of(inputs)
    job = Job(
        source=source,
        pieces=source.pieces(inputs),
        model=command_line.local_directory("model", _MODEL.value),
        keys=tuple(_KEYS.value),
        batch=_BATCH.value,
        file_format=_OUTPUT_FORMAT.value,
        max_rejected_fraction=_MAX_REJECTED.value,
        runner=_RUNNER.value,
        beam_flags=argv[1:],
    )
    output = command_line.local_directory("output", _OUTPUT.value)
    document = predict(job, output=output)
    print(
        f"{document['rows_read']:,} rows read, {document['rows_predicted']:,} predicted, "
        f"{document['rows_rejected']:,} rejected\npredictions {output}"
    )
    if _JSON.value:
        summary.write_json(_JSON.value, document)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parse_known_flags)

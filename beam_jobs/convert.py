r"""Converts raw data to a TFRecord dataset: split, shuffled, validated, measured, published all at once.

CSV or TSV, with a header or with --column_names; rows are split by fractions, or an input is pinned:

  python -m beam_jobs.convert --format=csv --schema=schema.json --output=data/census/1.0.0 \
      --input=adult-train.csv --input=test=adult-test.csv --splits=train=0.9,validation=0.1 \
      --column_names=age,workclass,…

Folders of images, <input>/<class>/<file>:

  python -m beam_jobs.convert --format=images --schema=schema.json --output=data/flowers/1.0.0 \
      --input=train=flowers/train --input=test=flowers/test

Parquet, Avro, JSON Lines, TFRecords of Examples and TFDS likewise (see --format); text, packed:

  python -m beam_jobs.convert --input=corpus.txt --tokenizer=bytes --sequence_length=512 \
      --schema=schema.json --output=data/corpus/1.0.0

`python -m beam_jobs.infer_schema` proposes the schema. The same rows give the same bytes on any runner with
any number of workers. If a row does not conform to the schema, nothing is published, unless
--max_rejected_fraction allows for it; rows left out are listed in <output>/rejected/rejected.jsonl.

What is odd about the data as a whole (a column that is mostly missing or constant, values outside the
vocabulary; against --baseline=DIR also new values, drift, …) is listed in <output>/anomalies.json; with
--severity=drift=error, nothing is published then.

Flags that are not listed here go to Beam, for instance two worker processes:

  --direct_num_workers=2 --direct_running_mode=multi_processing
"""

import datetime
import gc
import pickle
import shlex
import sys
import time
from collections.abc import Sequence

import apache_beam as beam
from absl import app, flags
from apache_beam.io.filesystems import FileSystems

from beam_jobs import (
    command_line,
    destination,
    failures,
    outcome,
    plan,
    prepare,
    progress,
    rejected,
    runners,
    source_flags,
    statistics,
    summary,
    write,
)
from beam_jobs.layouts import LAYOUTS, check_layout
from beam_jobs.plan import Plan
from beam_jobs.sources.files import parse_input
from beam_jobs.sources.source import Source
from beam_jobs.spill import Spill, make_spill
from beam_jobs.validation import judge
from beam_jobs.validation.anomalies import HELP
from pipeline.data import schema as schema_lib
from pipeline.data import whole_files
from pipeline.data.errors import answers_bad_input
from pipeline.data.schema import Schema

_INPUT = flags.DEFINE_multi_string(
    "input", None, "[SPLIT=]FILE, DIRECTORY or GLOB. Repeats. SPLIT= pins all its rows to that split."
)
_SCHEMA = flags.DEFINE_string("schema", None, "Schema file; infer_schema proposes one.")
_OUTPUT = flags.DEFINE_string(
    "output", None, "Dataset directory to publish, local or gs://; must not exist, or be empty."
)
_SPLITS = flags.DEFINE_string(
    "splits", plan.DEFAULT_SPLITS, "Fractions for rows of inputs that are not pinned to a split."
)
_MAX_REJECTED = flags.DEFINE_float(
    "max_rejected_fraction", 0.0, "Largest part of the rows that may be left out.", 0.0, 1.0
)
_SHARD_MIB = flags.DEFINE_integer("shard_mib", 128, "Input bytes that go to one shard, in MiB.", 1)
_LAYOUT = flags.DEFINE_enum(
    "layout",
    "rows",
    LAYOUTS,
    "rows: a record a row, which every tool reads. blocks: about 1,000 rows of fixed width a record, which "
    "cost least to read.",
)
_BASELINE = flags.DEFINE_string("baseline", None, "Earlier dataset to compare the statistics with.")
_SEVERITY = flags.DEFINE_multi_string(
    "severity", [], f"KIND=SEVERITY of an anomaly: error (publishes nothing), warning or ignore. {HELP}"
)
_LIMIT = flags.DEFINE_multi_string(
    "limit", [], "KIND=NUMBER: what an anomaly of this kind may measure at most."
)
_RUNNER = flags.DEFINE_string("runner", "FnApiRunner", "Beam runner.")
_JSON = flags.DEFINE_string("json", None, "File to write the summary to, as JSON.")


def build(
    pipeline: beam.Pipeline,
    source: Source,
    schema: Schema,
    planned: Plan,
    *,
    directory: str,
    spill: Spill,
    watched: progress.Progress,
) -> None:
    """The job graph: sources → prepare → shuffle → write → statistics, and the outcome for `commit`."""
    prepared = (
        pipeline
        | "Pieces" >> beam.Create(planned.pieces)
        | "Prepare"
        >> beam.ParDo(prepare.Prepare(source, schema, planned, spill=spill, progress=watched)).with_outputs(
            prepare.READ, prepare.REJECTED, main="rows"
        )
    )
    empty = [(key, write.NO_ROWS) for key in planned.shard_keys()]
    written = (
        (prepared.rows, pipeline | "Shards" >> beam.Create(empty, reshuffle=False))
        | beam.Flatten()
        | "Shuffle" >> beam.GroupByKey()
        | "Write"
        >> beam.ParDo(
            write.WriteShard(schema, planned, directory=directory, spill=spill, progress=watched)
        ).with_outputs(write.MEASURED, prepare.REJECTED, main="shards")
    )
    measured = (
        written[write.MEASURED]
        | "Statistics" >> beam.CombinePerKey(statistics.MergedStatisticsFn(schema))
        # As bytes: the runner would look at every object in it to learn its size.
        | "Sealed" >> beam.MapTuple(lambda split, measured: (split, pickle.dumps(measured)))
    )
    left_out = (
        (prepared[prepare.REJECTED], written[prepare.REJECTED])
        | "AllRejected" >> beam.Flatten()
        | "Rejected" >> beam.CombineGlobally(rejected.CollectRejected()).without_defaults()
    )
    read = prepared[prepare.READ] | "RowsRead" >> beam.CombineGlobally(sum).without_defaults()
    _ = (
        pipeline
        | "Outcome" >> beam.Create([FileSystems.join(directory, outcome.FILE_NAME)])
        | "Save"
        >> beam.Map(
            outcome.save,
            rows_read=beam.pvalue.AsSingleton(read, default_value=0),
            rejected=beam.pvalue.AsSingleton(left_out, default_value=rejected.NOTHING),
            shards=beam.pvalue.AsList(written.shards),
            statistics=beam.pvalue.AsDict(measured),
        )
    )


def convert(
    source: Source,
    schema: Schema,
    planned: Plan,
    *,
    output: str,
    run: summary.Run,
    rules: judge.Rules,
) -> dict:
    """Runs the job, publishes the dataset and gives the summary; where it fails it leaves nothing behind."""
    started = time.monotonic()
    options = runners.pipeline_options(run.runner, run.beam_flags)
    gc.freeze()  # what was imported stays: no collection need look through it
    with failures.told_in_one_line(output), destination.claimed(output) as workspace:
        watched = progress.Progress(path=str(workspace.local / "progress"))
        runner = runners.make_runner(run.runner, options, directory=workspace.local)
        pipeline = beam.Pipeline(runner=runner, options=options)
        spill = make_spill(workspace.shared, runner=run.runner)
        build(pipeline, source, schema, planned, directory=workspace.shared, spill=spill, watched=watched)
        with runners.bad_input_from_workers(), progress.shown(watched):
            pipeline.run().wait_until_finish()
        result = outcome.load(FileSystems.join(workspace.shared, outcome.FILE_NAME))
        outcome.check_reconciled(result, planned)
        rejected.check_limit(result.rejected, rows_read=result.rows_read, limit=run.max_rejected_fraction)
        outcome.check_not_empty(result, planned)
        verdict = judge.judge(result.statistics_of(planned), schema, rules)
        manifest = destination.publish(
            output,
            workspace,
            outcome=result,
            plan=planned,
            schema=schema,
            verdict=verdict,
            conversion=summary.conversion(run, planned, result, seconds=time.monotonic() - started),
        )
    return summary.to_json(
        manifest,
        output,
        seconds=time.monotonic() - started,
        reasons=result.rejected.reasons,
        anomalies=verdict.anomalies,
    )


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    command_line.check_given({flag.name: flag.value for flag in (_INPUT, _SCHEMA, _OUTPUT)})
    command_line.check_local_files({"json": _JSON.value})
    inputs = [parse_input(text) for text in _INPUT.value]
    plan.check_split_names(inputs)
    _, source = source_flags.source_of(inputs)
    schema = schema_lib.load(_SCHEMA.value)
    check_layout(_LAYOUT.value, schema)
    rules = judge.parse_rules(severities=_SEVERITY.value, limits=_LIMIT.value, baseline=_BASELINE.value)
    output = command_line.directory(_OUTPUT.value)
    run = summary.Run(
        command=shlex.join(["python", "-m", "beam_jobs.convert", *sys.argv[1:]]),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        runner=_RUNNER.value,
        beam_flags=tuple(argv[1:]),
        max_rejected_fraction=_MAX_REJECTED.value,
    )
    planned = plan.make_plan(
        inputs,
        source,
        schema,
        fractions=plan.parse_fractions(_SPLITS.value),
        shard_bytes=_SHARD_MIB.value << 20,
        layout=_LAYOUT.value,
    )
    result = convert(source, schema, planned, output=output, run=run, rules=rules)
    print(summary.text(result))
    if _JSON.value:
        whole_files.write_json(_JSON.value, result)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parse_known_flags)

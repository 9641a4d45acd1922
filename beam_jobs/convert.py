r"""Converts raw data to a TFRecord dataset: split, shuffled, validated, measured, published all at once.

This reads CSV files without a header. --splits divides the rows of the first file, test= pins the second one:

  python -m beam_jobs.convert --format=csv --schema=schema.json --output=data/census/1.0.0 \
      --input=adult-train.csv --input=test=adult-test.csv --splits=train=0.9,validation=0.1 \
      --column_names=age,workclass,…

This reads folders of images, <input>/<class>/<file>:

  python -m beam_jobs.convert --format=images --schema=schema.json --output=data/flowers/1.0.0 \
      --input=train=flowers/train --input=test=flowers/test

Parquet, Avro, JSON Lines, TFRecords of Examples and TFDS are given the same way (see --format). This packs
text:

  python -m beam_jobs.convert --input=corpus.txt --tokenizer=bytes --sequence_length=512 \
      --schema=schema.json --output=data/corpus/1.0.0

`python -m beam_jobs.infer_schema` proposes the schema. The same rows give the same bytes on any runner with
any number of workers. If a row does not conform to the schema, nothing is published, unless
--max_rejected_fraction allows for it; rows left out are listed in <output>/rejected/rejected.jsonl.

<output>/anomalies.json lists what is odd about the data as a whole: a column that is mostly missing or
constant, values outside the vocabulary, records that two splits have (with --layout=blocks,
beam_jobs.verify counts these instead). Compared with --baseline=DIR, it also lists new values, drift and
more. With --severity=drift=error, drift keeps the dataset from being published.

Flags that are not listed here go to Beam, for instance two worker processes:

  --direct_num_workers=2 --direct_running_mode=multi_processing
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals(addresses=2_600_000_000)

import dataclasses
import shlex
import sys
from collections.abc import Sequence

from absl import flags

from beam_jobs.checks import validate
from beam_jobs.checks.anomalies import HELP
from beam_jobs.conversion import dataset, plan, summary
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.conversion.records import LAYOUTS, check_layout
from beam_jobs.launch import runners
from beam_jobs.launch.run import Run
from beam_jobs.sources import flags as source_flags
from beam_jobs.sources.files import parse_input
from pipeline.base import files
from pipeline.base.cli import command as command_lib
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.data.schema import schema as schema_lib

_INPUT = flags.DEFINE_multi_string(
    "input", None, "[SPLIT=]PATH: a file, a directory or a glob. SPLIT= puts all its rows into that split."
)
_SCHEMA = flags.DEFINE_string("schema", None, "FILE: the schema; beam_jobs.infer_schema proposes one.")
_OUTPUT = flags.DEFINE_string(
    "output", None, "DIRECTORY: the dataset to publish, local or gs://. It must be new or empty."
)
_SPLITS = flags.DEFINE_string(
    "splits", plan.DEFAULT_SPLITS, "SPLIT=FRACTION,…: the splits of rows whose --input names none."
)
_MAX_REJECTED = flags.DEFINE_float(
    "max_rejected_fraction",
    0.0,
    "Largest fraction of the rows, or of the documents of packed text, that may be left out.",
    0.0,
    1.0,
)
_MAX_UNLABELLED = flags.DEFINE_float(
    "max_unlabelled_fraction",
    0.0,
    "Largest fraction of the rows that may have no label. They are left out and listed, and do not count "
    "towards --max_rejected_fraction.",
    0.0,
    1.0,
)
_REJECTED_RAW = flags.DEFINE_bool(
    "rejected_raw",
    True,
    "Keep the start of a rejected row's raw value. --norejected_raw keeps only its reason and origin.",
)
_ALLOW_EMPTY = flags.DEFINE_bool(
    "allow_empty",
    False,
    "Also publish a dataset without rows, or without rows in a split that --input or the schema's split_by "
    "names. This suits a dataset that is read as one with others.",
)
_SHARD_MIB = flags.DEFINE_integer("shard_mib", 128, "Input that goes to one shard, in MiB.", 1)
_LAYOUT = flags.DEFINE_enum(
    "layout",
    "rows",
    LAYOUTS,
    "rows: one row a record, which every tool reads. blocks: about 1,000 rows of fixed width a record, "
    "which cost least to read.",
)
_BASELINE = flags.DEFINE_string(
    "baseline", None, "DIRECTORY: an earlier dataset, or a glob of several, to compare the statistics with."
)
_SEVERITY = flags.DEFINE_multi_string(
    "severity",
    [],
    f"KIND=SEVERITY: what a kind of anomaly is: error (nothing is published), warning or ignore. {HELP}.",
)
_LIMIT = flags.DEFINE_multi_string(
    "limit", [], "KIND=NUMBER: the largest value that is no anomaly of this kind."
)
_ORIGINS = flags.DEFINE_bool(
    "origins",
    True,
    "Keep the raw file and row of each row in origins/, beside the dataset: 2 to 6 bytes a row.",
)
_RUNNER = flags.DEFINE_string("runner", "FnApiRunner", "NAME: the Beam runner.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write the summary to it, as JSON.")

COMMAND = Command(
    name="beam_jobs.convert",
    description=__doc__,
    required=(_INPUT, _SCHEMA, _OUTPUT),
    flags={
        "Raw data": (_INPUT, *source_flags.RAW_DATA),
        "Text as rows of tokens": source_flags.TOKENS,
        "The dataset": (_SCHEMA, _OUTPUT, _SPLITS, _LAYOUT, _SHARD_MIB, _ORIGINS),
        "Limits": (_MAX_REJECTED, _MAX_UNLABELLED, _REJECTED_RAW, _ALLOW_EMPTY, _BASELINE, _SEVERITY, _LIMIT),
        "Running": (_RUNNER, _JSON),
    },
    unknown=runners.unknown_flags,
)


def main(argv: Sequence[str]) -> None:
    flags_lib.check_local_files({"json": _JSON.value})
    inputs = [
        dataclasses.replace(parse_input(text), may_be_empty=_ALLOW_EMPTY.value) for text in _INPUT.value
    ]
    plan.check_split_names(inputs)
    schema = schema_lib.load(_SCHEMA.value)
    schema_lib.check_names(schema)
    source = source_flags.source_of(inputs, remembered=schema.raw_files)
    source = source_flags.with_partitions(source, (*schema.columns, *schema.placing_columns))
    source_flags.check_tokenizer(source, schema)
    check_layout(_LAYOUT.value, schema)
    dataset.check_grouped(schema)
    rules = validate.parse_rules(severities=_SEVERITY.value, limits=_LIMIT.value, baseline=_BASELINE.value)
    dataset.check_countable(rules.policy, layout=_LAYOUT.value)
    fractions = plan.parse_fractions(_SPLITS.value) if _SPLITS.present else None
    run = Run(
        runner=_RUNNER.value,
        beam_flags=tuple(argv[1:]),
        max_rejected_fraction=_MAX_REJECTED.value,
        max_unlabelled_fraction=_MAX_UNLABELLED.value,
    )
    planned = plan.make_plan(
        inputs,
        source,
        schema,
        fractions=fractions,
        shard_bytes=_SHARD_MIB.value << 20,
        layout=_LAYOUT.value,
        origins=_ORIGINS.value,
    )
    command = shlex.join(["python", "-m", "beam_jobs.convert", *sys.argv[1:]])
    conversion = Conversion(
        source=source,
        schema=schema,
        plan=planned,
        rules=rules,
        run=run,
        command=command,
        keeps_rejected_raw=_REJECTED_RAW.value,
        may_be_empty=_ALLOW_EMPTY.value,
    )
    result = convert(conversion, output=flags_lib.directory(_OUTPUT.value))
    with command_lib.announce_published(f"the dataset {_OUTPUT.value}"):
        print(summary.text(result))
        if _JSON.value:
            files.write_json(_JSON.value, result)


if __name__ == "__main__":
    run_command(main, COMMAND)

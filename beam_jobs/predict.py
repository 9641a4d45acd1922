r"""Batch inference: predicts every row of raw data with an exported model.

  python -m beam_jobs.predict --model=exports/census/1 --format=csv --input=new.csv \
      --output=predictions/2024-06-01 --keys=customer_id

--model is a directory that `python -m pipeline.export` wrote. Its schema says how the input is read, exactly
as for training. A label column is not needed. Each row of <output>/predictions-*.parquet (or .tfrecord)
holds the --keys columns of its input row (or, without --keys, the file and row number it came from), then
`class` and `probabilities`, or `value` for a regression. Rows that do not conform are listed in
<output>/_rejected.jsonl, within --max_rejected_fraction. <output>/_predictions.json is written last:
a directory that has it is whole. Readers of folders of Parquet files skip both.

A model of images takes image files, and folders of them with or without folders of classes. It needs
--format=images unless infer_schema wrote its schema.

Flags that are not listed here go to Beam, for instance --direct_num_workers=2
--direct_running_mode=multi_processing.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals(addresses=2_600_000_000)

import dataclasses
from collections.abc import Sequence

from absl import flags

from beam_jobs.inference import tables
from beam_jobs.inference.job import Prediction, counts, open_export
from beam_jobs.launch import runners
from beam_jobs.launch.outcome import cut_warnings, warnings_of
from beam_jobs.launch.run import Run, run_job
from beam_jobs.sources import flags as source_flags
from beam_jobs.sources.files import parse_input
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.tokens import remarks_of
from pipeline.base import files
from pipeline.base.cli import command
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import printable

_MODEL = flags.DEFINE_string("model", None, "DIRECTORY: the model that pipeline.export wrote.")
_INPUT = flags.DEFINE_multi_string("input", None, "PATH: a file, a directory or a glob.")
_OUTPUT = flags.DEFINE_string("output", None, "DIRECTORY: where the predictions go. It must be new or empty.")
_OUTPUT_FORMAT = flags.DEFINE_enum("output_format", "parquet", tables.FORMATS, "How predictions are stored.")
_KEYS = flags.DEFINE_list(
    "keys",
    [],
    'A,B,…: columns of the input to copy to the output. Write a name with a comma as "A,B". Columns of JSON '
    "Lines, TFRecords and TFDS become text.",
)
_BATCH = flags.DEFINE_integer("batch", 1024, "Rows in one call of the model, at most.", 1)
_MAX_REJECTED = flags.DEFINE_float(
    "max_rejected_fraction",
    0.0,
    "Largest fraction of the rows, or of the documents of packed text, that may be left out.",
    0.0,
    1.0,
)
_RUNNER = flags.DEFINE_string("runner", "FnApiRunner", "NAME: the Beam runner.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write the summary to it, as JSON.")

COMMAND = Command(
    name="beam_jobs.predict",
    description=__doc__,
    required=(_MODEL, _INPUT, _OUTPUT),
    flags={
        "Raw data": (_INPUT, *source_flags.RAW_DATA),
        "Text as rows of tokens": source_flags.TOKENS,
        "Predictions": (_MODEL, _OUTPUT, _OUTPUT_FORMAT, _KEYS, _MAX_REJECTED),
        "Running": (_BATCH, _RUNNER, _JSON),
    },
    unknown=runners.unknown_flags,
)


def main(argv: Sequence[str]) -> None:
    flags_lib.check_local_files({"json": _JSON.value})
    inputs = [parse_input(text) for text in _INPUT.value]
    exported = open_export(flags_lib.local_directory("model", _MODEL.value))
    source = source_flags.source_of(inputs, remembered=exported.schema.raw_files)
    if isinstance(source, ImageFolders):
        source = dataclasses.replace(source, labelled=False)
    source_flags.check_tokenizer(source, exported.schema)
    source = source_flags.with_partitions(source, (*exported.schema.columns, *_KEYS.value))
    output = flags_lib.local_directory("output", _OUTPUT.value)
    run = Run(runner=_RUNNER.value, beam_flags=tuple(argv[1:]), max_rejected_fraction=_MAX_REJECTED.value)
    job = Prediction(
        source=source,
        input_splits=source.input_splits(inputs),
        exported=exported,
        keys=tuple(_KEYS.value),
        batch=_BATCH.value,
        file_format=_OUTPUT_FORMAT.value,
        run=run,
    )
    document = run_job(job, output=str(output))
    with command.announce_published(f"what was predicted, in {output},"):
        for key in document["keys_without_values"]:
            print(f"warning    --keys: no row that was predicted has a value in '{printable(key)}'")
        cut = cut_warnings(document.get("documents_cut", 0), of=document.get("documents_predicted", 0))
        for warning in (*remarks_of(source), *warnings_of(document), *cut):
            print(printable(warning))
        print(f"{counts(document)}\npredictions {output}")
        if _JSON.value:
            files.write_json(_JSON.value, document)


if __name__ == "__main__":
    run_command(main, COMMAND)

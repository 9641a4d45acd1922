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

from collections.abc import Sequence

from absl import app, flags

from beam_jobs import command_line, source_flags
from beam_jobs.inference import job as job_lib
from beam_jobs.inference import tables
from beam_jobs.sources.files import parse_input
from pipeline.data import whole_files
from pipeline.data.errors import answers_bad_input

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


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    command_line.check_given({flag.name: flag.value for flag in (_MODEL, _INPUT, _OUTPUT)})
    command_line.check_local_files({"json": _JSON.value})
    inputs = [parse_input(text) for text in _INPUT.value]
    _, source = source_flags.source_of(inputs)
    job = job_lib.Job(
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
    document = job_lib.predict(job, output=output)
    print(
        f"{document['rows_read']:,} rows read, {document['rows_predicted']:,} predicted, "
        f"{document['rows_rejected']:,} rejected\npredictions {output}"
    )
    if _JSON.value:
        whole_files.write_json(_JSON.value, document)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parse_known_flags)

r"""Proposes a schema from raw data, with evidence, for you to review and edit.

  python -m beam_jobs.infer_schema --format=csv --input=taxi.csv --label=big_tipper --output=schema.json

  python -m beam_jobs.infer_schema --format=csv --input=adult-train.csv --input=test=adult-test.csv \
      --column_names=age,workclass,… --label=income --name=adult --output=schema.json

  python -m beam_jobs.infer_schema --input=houses.tsv --label=price --task=regression --output=schema.json

  python -m beam_jobs.infer_schema --input=clicks.csv --label=relevance --group=query --output=schema.json

  python -m beam_jobs.infer_schema --format=images --input=train=mnist/train --output=schema.json

  python -m beam_jobs.infer_schema --input=corpus.txt --tokenizer=bytes --output=schema.json

Each feature's `evidence` in the file says how often the value is missing, how many different values there
are, and which; `raw_files` says how CSV files are read. Columns that say nothing (empty, constant, an id, row
numbers) are listed under `ignore` with the reason. Dates and times become `datetime`. Texts such as `$1,200`,
`12 %` or `5 km` become numbers, with a `clean` that says how to read them. Whole numbers in a column called
…id are hashed. Numbers such as -999, far from all others, are taken as missing. Remarks list other numbers,
dates and words that may mean "no value", with the flag --missing that declares them; those of the label come
first. If dates can be read in two ways, remarks give the flag --date_format; for years of two digits they
give --first_year. Spellings that differ in case are taken as one. Remarks name columns that give the label
away and, without --label, columns that could be one. Review the remarks, printed last; then run
`python -m beam_jobs.convert --schema=schema.json …`.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals(addresses=2_200_000_000)

import dataclasses
import pathlib
from collections.abc import Sequence

from absl import flags

from beam_jobs.conversion import plan
from beam_jobs.schema import proposal as proposal_lib
from beam_jobs.schema.labels import TASKS
from beam_jobs.schema.proposal import propose_from
from beam_jobs.schema.table import Proposal
from beam_jobs.sources import flags as source_flags
from beam_jobs.sources.files import parse_input
from pipeline.base import files
from pipeline.base.cli import command
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.data.schema.times import FIRST_YEAR, FORMATS
from pipeline.report import terminal

_INPUT = flags.DEFINE_multi_string(
    "input", None, "[SPLIT=]PATH: a file, a directory or a glob. SPLIT= as for convert."
)
_OUTPUT = flags.DEFINE_string("output", None, "FILE: where the schema goes. Its folder is made.")
_OVERWRITE = flags.DEFINE_bool(
    "overwrite",
    False,
    "Replace --output if it exists. Its edits are lost. Give all flags again.",
)
_LABEL = flags.DEFINE_string(
    "label",
    None,
    "COLUMN: what is predicted. A,B,… names several numbers, or several columns of two classes, that one "
    "model predicts. For images it is the folder's name.",
)
_TASK = flags.DEFINE_enum(
    "task",
    None,
    TASKS,
    "The task of --label. classification: binary or multiclass, by its number of classes. By default words, "
    "and up to 20 different whole numbers, are classes; other numbers are a regression, and lists of names "
    "a multilabel.",
)
_GROUP = flags.DEFINE_string(
    "group",
    None,
    "COLUMN: rows with the same value in it are ranked together; --label says how relevant each row is: "
    "0, 1, 2 …. A group is one record.",
)
_IGNORE = flags.DEFINE_list("ignore", [], 'A,B,…: columns to leave out. Write a name with a comma as "A,B".')
_NUMERIC = flags.DEFINE_list(
    "numeric",
    [],
    "A,B,…: columns of numbers, where words or the column's name would make it categories. Rows with "
    "anything else in them will be rejected.",
)
_MISSING = flags.DEFINE_multi_string(
    "missing",
    [],
    'COLUMN=VALUE: a value that means "no value", such as -200. VALUE without a column is for all columns.',
)
_NOT_MISSING = flags.DEFINE_multi_string(
    "not_missing",
    [],
    "COLUMN=VALUE: a value to keep that would be taken as missing, such as the country NA.",
)
_DATE_FORMAT = flags.DEFINE_multi_string(
    "date_format",
    [],
    f"COLUMN=FORMAT: how a column's dates are written, one of {', '.join(FORMATS)}. FORMAT without a column "
    "is for all columns. The default is the first of these that reads the column.",
)
_FIRST_YEAR = flags.DEFINE_multi_string(
    "first_year",
    [],
    f"COLUMN=YEAR: the first of the hundred years that two digits of %y mean. YEAR without a column is for "
    f"all columns. The default is {FIRST_YEAR}, the rule of POSIX.",
)
_LIST_DELIMITER = flags.DEFINE_multi_string(
    "list_delimiter",
    [],
    "COLUMN=DELIMITER: what stands between the values of a list in text, such as 'genres=|'. DELIMITER "
    "without a column is for all columns where it occurs. Lists of JSON Lines, Parquet and Avro need none.",
)
_NAME = flags.DEFINE_string("name", None, "NAME: the dataset's name. By default the name of the first input.")
_MAX_ROWS = flags.DEFINE_integer("max_rows", 1_000_000, "The most rows, or images, to look at.", 1)
_JSON = flags.DEFINE_string("json", None, "FILE: also write the proposal and its remarks to it, as JSON.")

COMMAND = Command(
    name="beam_jobs.infer_schema",
    description=__doc__,
    required=(_INPUT, _OUTPUT),
    flags={
        "Raw data": (_INPUT, *source_flags.RAW_DATA, _MAX_ROWS),
        "Text as rows of tokens": source_flags.TOKENS,
        "The schema": (
            *(_OUTPUT, _OVERWRITE, _NAME, _LABEL, _TASK, _GROUP),
            *(_IGNORE, _NUMERIC, _MISSING, _NOT_MISSING, _DATE_FORMAT, _FIRST_YEAR, _LIST_DELIMITER, _JSON),
        ),
    },
)


def _check_new(output: pathlib.Path) -> None:
    if output.is_dir():
        flags_lib.check_local_files({"output": _OUTPUT.value})
    if output.exists() and not _OVERWRITE.value:
        raise InputError(
            f"--output={output}",
            received="a file that exists",
            expected="a new file, so that no edits are lost",
            action="Choose another name, or add --overwrite: edits in the file are lost, so repeat as flags "
            "what they said (--missing, --numeric, --ignore, …), or make them again.",
        )


def main(argv: Sequence[str]) -> None:
    del argv
    output = pathlib.Path(_OUTPUT.value)
    _check_new(output)
    flags_lib.check_local_files({"json": _JSON.value})
    inputs = [parse_input(text) for text in _INPUT.value]
    plan.check_split_names(inputs)
    source = source_flags.source_of(inputs, guess=True)
    proposal = propose_from(
        source_flags.with_partitions(source),
        inputs,
        name=_NAME.value,
        label=_LABEL.value,
        task=_TASK.value,
        group=_GROUP.value,
        ignore=_IGNORE.value,
        missing=_MISSING.value,
        not_missing=_NOT_MISSING.value,
        date_format=_DATE_FORMAT.value,
        first_year=_FIRST_YEAR.value,
        list_delimiter=_LIST_DELIMITER.value,
        numeric=_NUMERIC.value,
        max_rows=_MAX_ROWS.value,
    )
    settings = source_flags.settings_of(source, inputs)
    schema = dataclasses.replace(proposal.schema, raw_files=settings)
    schema_lib.save(schema, output)
    with command.announce_published(f"the schema {output}"):
        _print_proposal(proposal, schema, source_flags.format_settings(settings))


def _print_proposal(proposal: Proposal, schema: Schema, described: str) -> None:
    if described:
        print(terminal.broken(described), end="\n\n")
    print(proposal_lib.format_summary(schema))
    if proposal.looked_at:
        print(f"\n{proposal.looked_at}")
    review = map(terminal.broken, [f"- {each}" for each in proposal.review or ["nothing stands out"]])
    print("\nTo review:", *review, sep="\n")
    print(f"\nschema {_OUTPUT.value}")
    if _JSON.value:
        document = {
            "schema": schema_lib.to_json(schema),
            "review": proposal.review,
            "looked_at": proposal.looked_at,
        }
        files.write_json(_JSON.value, document)


if __name__ == "__main__":
    run_command(main, COMMAND)

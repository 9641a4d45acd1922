r"""Proposes a schema from raw data, with what it saw as evidence, for you to review and edit.

  python -m beam_jobs.infer_schema --format=csv --input=taxi.csv --label=big_tipper --output=schema.json

  python -m beam_jobs.infer_schema --format=csv --input=adult-train.csv --input=test=adult-test.csv \
      --column_names=age,workclass,… --label=income --name=adult --output=schema.json

  python -m beam_jobs.infer_schema --format=images --input=train=mnist/train --output=schema.json

  python -m beam_jobs.infer_schema --input=corpus.txt --tokenizer=bytes --output=schema.json

Each feature's `evidence` in the file says how often the value is missing, how many different values there
are, and which. Columns that say nothing (empty, constant, an id) are listed under `ignore` with the reason.
What needs your judgement is printed last; then `python -m beam_jobs.convert --schema=schema.json …`.
"""

import pathlib
import re
from collections.abc import Sequence

from absl import app, flags

from beam_jobs import command_line, plan, source_flags
from beam_jobs.propose import Proposal, propose
from beam_jobs.propose_images import propose_images
from beam_jobs.propose_tokens import propose_tokens
from beam_jobs.read_profiles import read_profiles
from beam_jobs.sources.files import parse_input
from beam_jobs.sources.tokens import TokenRows
from pipeline.data import schema as schema_lib
from pipeline.data import whole_files
from pipeline.data.errors import InputError, answers_bad_input
from pipeline.data.feature import Feature
from pipeline.data.schema import Schema

_INPUT = flags.DEFINE_multi_string("input", None, "[SPLIT=]FILE, DIRECTORY or GLOB. Repeats.")
_OUTPUT = flags.DEFINE_string("output", None, "Schema file to write.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace --output if it exists; edits in it are lost.")
_LABEL = flags.DEFINE_string("label", None, "Column to predict (images: the folder's name is).")
_IGNORE = flags.DEFINE_list("ignore", [], "Columns to leave out.")
_NAME = flags.DEFINE_string("name", None, "Dataset name; by default that of the first input.")
_MAX_ROWS = flags.DEFINE_integer("max_rows", 1_000_000, "Rows to look at, or images.", 1)
_JSON = flags.DEFINE_string("json", None, "File to write the proposal and its remarks to, as JSON.")


def table(schema: Schema) -> str:
    """The proposed features, one a line."""
    rows = [("feature", "proposed", "missing", "distinct", "examples")]
    for feature in schema.features:
        seen = feature.evidence
        missing = _percent(seen["missing_fraction"]) if "missing_fraction" in seen else ""
        examples = ", ".join(map(str, seen.get("examples", seen.get("sizes", ()))))
        rows.append((feature.name, _description(feature), missing, str(seen.get("distinct", "")), examples))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip()[:160] for line in lines)


def _percent(fraction: float) -> str:
    return "<0.1%" if 0 < fraction < 0.001 else f"{fraction:.1%}"


def _description(feature: Feature) -> str:
    """`categorical, vocabulary of 8`, and so on: the fields that differ from the defaults, in short."""
    document = schema_lib.to_json(Schema(name="one", features=(feature,)), comments=False)["features"][0]
    shown = {"vocabulary": len, "classes": lambda names: ", ".join(names[:4]) + (" …" if names[4:] else "")}
    parts = [
        f"{key}={shown.get(key, str)(value)}"
        for key, value in document.items()
        if key not in ("kind", "name", "clean")
    ]
    return " ".join([feature.kind, *parts])


def _propose(inputs: Sequence[str]) -> Proposal:
    given = [parse_input(text) for text in inputs]
    plan.check_split_names(given)
    raw_format, source = source_flags.source_of(given)
    name = _NAME.value or _name_from(given[0].location)
    if isinstance(source, TokenRows):
        return propose_tokens(source, name=name)
    pieces = source.pieces(given)
    if raw_format == "images":
        return propose_images(source, pieces, name=name, max_rows=_MAX_ROWS.value)
    profiles, remarks = read_profiles(source, pieces, max_rows=_MAX_ROWS.value)
    proposal = propose(profiles, name=name, label=_LABEL.value, ignore=_IGNORE.value)
    return Proposal(schema=proposal.schema, review=(*remarks, *proposal.review))


def _name_from(location: str) -> str:
    stem = pathlib.PurePath(location).stem.lower()
    return re.sub(r"[^a-z0-9_]+", "_", stem).strip("_0123456789") or "dataset"


def _check_new(output: pathlib.Path) -> None:
    if output.exists() and not _OVERWRITE.value:
        raise InputError(
            f"--output={output}",
            received="a file that exists",
            expected="a new file, so that no edits are lost",
            action="Choose another name, or add --overwrite.",
        )


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    command_line.check_given({flag.name: flag.value for flag in (_INPUT, _OUTPUT)})
    output = pathlib.Path(_OUTPUT.value)
    _check_new(output)
    command_line.check_local_files({"output": _OUTPUT.value, "json": _JSON.value})
    proposal = _propose(_INPUT.value)
    schema_lib.save(proposal.schema, output)
    print(table(proposal.schema))
    print("\nTo review:", *(proposal.review or ["nothing stands out"]), sep="\n- ")
    print(f"\nschema {output}")
    if _JSON.value:
        document = {"schema": schema_lib.to_json(proposal.schema), "review": proposal.review}
        whole_files.write_json(_JSON.value, document)


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parse_flags)

"""Proposes a schema for each of the given inputs and converts it: prints what came of it, as JSON lines.

One process for many conversions: starting Python and Beam takes longer than any of them.
`python -m tests.commands.convert_each DIRECTORY FORMAT=INPUT…`
"""

import json
import pathlib
import sys

from absl import flags

from beam_jobs import convert
from beam_jobs.schema.profiles import read_profiles
from beam_jobs.schema.table import propose
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.source import Input
from pipeline.base.cli.run import answered
from pipeline.base.errors import InputError
from pipeline.data.schema import schema as schema_lib


def converted(raw_format: str, location: str, directory: pathlib.Path) -> dict:
    """The summary, or {"refused": message}."""
    source = open_source(raw_format)
    try:
        profiles = read_profiles(
            source, source.input_splits([Input(location=location)]), max_rows=1 << 20
        ).columns
        schema = propose(profiles, name="others", label=None).schema
    except InputError as error:
        return {"refused": str(error)}
    directory.mkdir()
    schema_lib.save(schema, directory / "schema.json")
    values = {"format": raw_format, "input": location, "schema": directory / "schema.json"}
    values |= {"output": directory / "out", "json": directory / "summary.json"}
    flags.FLAGS.unparse_flags()
    given = [f"--{name}={value}" for name, value in values.items()]
    if code := answered(convert.main, convert.COMMAND, ["convert", *given]):
        return {"failed": code}
    return json.loads((directory / "summary.json").read_bytes())


if __name__ == "__main__":
    for number, given in enumerate(sys.argv[2:]):
        result = converted(*given.split("=", 1), pathlib.Path(sys.argv[1]) / str(number))
        print("result", json.dumps(result), flush=True)

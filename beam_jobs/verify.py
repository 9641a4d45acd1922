"""Checks a published dataset to its last byte, and compares it with an earlier version of it.

  python -m beam_jobs.verify data/census/1.1.0

  python -m beam_jobs.verify data/census/1.1.0 --against=data/census/1.0.0 --html=changes.html

Every file is held against the manifest (size, SHA-256), every record against its checksum and the schema;
what is damaged is named with shard, record number and byte offset. With --against: rows added, removed and
changed, records that moved between splits or leak from a train split, and how the statistics moved.
Exit code 0: sound; 2: damaged. Leaks and drift are findings, no damage.

One shard is read at a time; in memory stay 52 bytes a row. It needs no TensorFlow.
"""

import pathlib
from collections.abc import Sequence

from absl import app, flags

from beam_jobs import command_line
from beam_jobs.validation.anomalies import HELP, parse_policy
from beam_jobs.verification import findings, show
from beam_jobs.verification.dataset import verify
from beam_jobs.verification.difference import difference
from pipeline.data.errors import EXIT_BAD_INPUT, InputError, answers_bad_input

_AGAINST = flags.DEFINE_string("against", None, "Earlier version of the dataset to compare with.")
_JSON = flags.DEFINE_string("json", None, "File to write everything that was found to, as JSON.")
_HTML = flags.DEFINE_string("html", None, "File to write the tables to, as one web page.")
_LIMIT = flags.DEFINE_multi_string("limit", [], f"KIND=NUMBER, as for beam_jobs.convert. {HELP}")
_SEVERITY = flags.DEFINE_multi_string("severity", [], "KIND=SEVERITY, as for beam_jobs.convert.")


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    if len(argv) != 2:
        raise InputError(
            "command line",
            received=" ".join(argv[1:]) or "no directory",
            expected="one dataset directory",
            action="Write `python -m beam_jobs.verify DIR`.",
        )
    command_line.check_local_files({"json": _JSON.value, "html": _HTML.value})
    policy = parse_policy(_SEVERITY.value, _LIMIT.value)
    verified = verify(pathlib.Path(argv[1]))
    other = verify(pathlib.Path(_AGAINST.value)) if _AGAINST.value else None
    changes = difference(other, verified, policy) if other else None
    sections = findings.sections(verified, other, changes)
    print(show.text(sections))
    if _JSON.value:
        document = findings.to_json(verified, other, changes)
        pathlib.Path(_JSON.value).write_text(findings.dumps(document))
    if _HTML.value:
        pathlib.Path(_HTML.value).write_text(show.page(f"Dataset {verified.directory}", sections))
    damaged = verified.problem_count or (other and other.problem_count)
    return EXIT_BAD_INPUT if damaged else 0


if __name__ == "__main__":
    app.run(main, flags_parser=command_line.parse_flags)

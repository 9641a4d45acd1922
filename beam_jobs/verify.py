"""Checks a published dataset to its last byte, and compares it with an earlier version of it.

  python -m beam_jobs.verify data/census/1.1.0

  python -m beam_jobs.verify data/census/1.1.0 --against=data/census/1.0.0 --html=changes.html

It compares every file with the manifest (size, SHA-256), and every record with its checksum and the schema.
It names damage by shard, record number and byte offset, and counts rows that are in two splits. With
--against it lists rows added, removed and changed, records that moved between splits or leak from a train
split, and how the statistics moved. Exit code 0: sound; 2: damaged. Leaks and drift are findings, not damage.

It reads one shard at a time, keeps 52 bytes a row in memory, and needs no TensorFlow.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals(addresses=2_200_000_000)

import pathlib
from collections.abc import Sequence

from absl import flags

from beam_jobs.checks import findings
from beam_jobs.checks.anomalies import HELP, parse_policy
from beam_jobs.checks.dataset import verify
from beam_jobs.checks.difference import difference
from beam_jobs.checks.findings import leaks
from pipeline.base import files
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import EXIT_BAD_INPUT, InputError
from pipeline.report import html, terminal
from pipeline.report.section import Section

_AGAINST = flags.DEFINE_string(
    "against", None, "DIRECTORY: an earlier version of the dataset to compare with."
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write all findings to it, as JSON.")
_HTML = flags.DEFINE_string("html", None, "FILE: also write the tables to it, as one web page.")
_LIMIT = flags.DEFINE_multi_string("limit", [], f"KIND=NUMBER: as for beam_jobs.convert. {HELP}.")
_SEVERITY = flags.DEFINE_multi_string("severity", [], "KIND=SEVERITY: as for beam_jobs.convert.")

COMMAND = Command(
    name="beam_jobs.verify",
    description=__doc__,
    arguments="DIRECTORY",
    flags={
        "Comparing with an earlier version": (_AGAINST, _SEVERITY, _LIMIT),
        "Results": (_JSON, _HTML),
    },
)


def main(argv: Sequence[str]) -> int:
    if len(argv) != 2:
        raise InputError(
            "command line",
            received=" ".join(argv[1:]) or "no directory",
            expected="one dataset directory",
            action="Write `python -m beam_jobs.verify DIR`.",
        )
    flags_lib.check_local_files({"json": _JSON.value, "html": _HTML.value})
    policy = parse_policy(_SEVERITY.value, _LIMIT.value)
    verified = verify(pathlib.Path(argv[1]))
    other = verify(pathlib.Path(_AGAINST.value)) if _AGAINST.value else None
    changes = difference(other, verified, policy) if other else None
    leaked = leaks(verified, policy)
    sections = findings.sections(verified, other, changes, leaked)
    print(terminal.render(sections))
    if _JSON.value:
        document = findings.to_json(verified, other, changes, leaked)
        files.write_bytes(_JSON.value, findings.dumps(document).encode())
    if _HTML.value:
        page = html.page(Section(title=f"Dataset {verified.directory}"), sections)
        files.write_bytes(_HTML.value, page.encode())
    damaged = verified.problem_count or (other and other.problem_count)
    return EXIT_BAD_INPUT if damaged else 0


if __name__ == "__main__":
    run_command(main, COMMAND)

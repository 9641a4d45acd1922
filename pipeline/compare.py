"""Compares training runs: where their configs differ, their final metrics, and their curves over each other.

  python -m pipeline.compare --runs=runs --html=runs.html

--runs is a run's working directory or a folder of them, such as that of a sweep; it may be given several
times. Runs that still train are compared as far as they are. Nothing but the working directories is read.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import pathlib
from collections.abc import Sequence

from absl import flags

from pipeline.base import files
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.report import html, terminal
from pipeline.training.report import runs as runs_lib

_RUNS = flags.DEFINE_multi_string("runs", [], "DIRECTORY: a run or a folder of runs; as often as needed.")
_HTML = flags.DEFINE_string("html", None, "FILE: also write a page, with curves.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write the output to it, as JSON.")

COMMAND = Command(
    name="pipeline.compare",
    description=__doc__,
    required=(_RUNS,),
    flags={"Flags": (_RUNS, _HTML, _JSON)},
)


def main(argv: Sequence[str]) -> None:
    del argv
    flags_lib.check_local_files({"html": _HTML.value, "json": _JSON.value})
    runs = runs_lib.read_runs([pathlib.Path(place) for place in _RUNS.value])
    head, *tables = runs_lib.tables(runs)
    if _HTML.value:
        files.write_bytes(_HTML.value, html.page(head, [*tables, runs_lib.curves(runs)]).encode())
    if _JSON.value:
        files.write_json(_JSON.value, runs_lib.to_json(runs))
    print(terminal.render([head, *tables]))


if __name__ == "__main__":
    run_command(main, COMMAND)

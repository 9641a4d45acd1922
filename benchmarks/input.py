r"""The input pipeline side by side with its peers: what an example costs, in CPU time of the process tree.

  make peers                        # their environment, build/peers: 6 GB
  python -m benchmarks.input --data=DIR [--workloads=tabular,images,tokens] [--names=…] [--rounds=3] \
      [--seconds=5] [--busy_cores=0] [--json=FILE] [--results=benchmarks/RESULTS.md]

Each run has a process of its own. Rounds are interleaved, so that a change of the machine's load meets all
readers; figures are medians. Before the first round, one epoch of each reader is counted: every example
once, or the benchmark fails. Data is written to DIR once and used again.

--json writes a list of {workload, name, cpu_us_per_example, examples_per_s, first_batch_s, peak_mb, load}.

Hardware: Linux, any. Duration: on 2 cores 10 minutes for the data, 6 for the epochs, 8 a round. Needs 6 GB
in DIR.
"""

import json
import pathlib
import statistics
import sys
from collections.abc import Mapping, Sequence

from absl import app, flags

from benchmarks.reading import cases as cases_lib
from benchmarks.reading import data as data_lib
from benchmarks.reading import machine, results
from benchmarks.reading import run as run_lib
from benchmarks.reading.cases import Case
from pipeline.base.errors import answers_bad_input

_DATA = flags.DEFINE_string("data", None, "Directory for the data.", required=True)
_WORKLOADS = flags.DEFINE_list("workloads", list(cases_lib.READERS), "What to read.")
_NAMES = flags.DEFINE_list("names", [], "Readers; all of them if none are named.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each reader runs.", 1)
_SECONDS = flags.DEFINE_float("seconds", 5.0, "How long each run is measured, after half of it.", 0.1)
_BUSY_CORES = flags.DEFINE_integer("busy_cores", 0, "Cores that a busy loop takes meanwhile.", 0)
_EPOCHS = flags.DEFINE_bool("epochs", True, "Count an epoch of each reader first.")
_PEERS = flags.DEFINE_string("peers", "build/peers", "Virtual environment of requirements/peers.txt.")
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")
_RESULTS = flags.DEFINE_string("results", None, "Markdown file to write the figures and verdicts to.")

_FIGURES = {
    "cpu_us_per_example": 4,
    "examples_per_s": 0,
    "first_batch_s": 3,
    "peak_mb": 0,
    "load": 1,
}  # and the decimals worth keeping


def figures(case: Case, runs: Sequence[Mapping]) -> dict[str, object]:
    """The medians of `runs`, as --json lists them."""
    medians = {
        key: round(statistics.median(run[key] for run in runs), decimals)
        for key, decimals in _FIGURES.items()
    }
    return {"workload": case.workload, "name": case.name, **medians}


def _prepare(cases: Sequence[Case], data: pathlib.Path, pythons: Mapping[Case, pathlib.Path]) -> None:
    for workload in dict.fromkeys(case.workload for case in cases):
        data_lib.prepare(workload, data, data_lib.Sizes())
        peers = [case for case in cases if case.workload == workload and case.is_peer]
        if peers:
            run_lib.write_formats(workload, data, python=pythons[peers[0]])


def _tell(case: Case, what: str) -> None:
    print(f"{case.workload}, {case.name}: {what}", file=sys.stderr, flush=True)


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    data = pathlib.Path(_DATA.value).absolute()
    cases = cases_lib.chosen(_WORKLOADS.value, _NAMES.value)
    pythons = {case: run_lib.python_of(case, pathlib.Path(_PEERS.value)) for case in cases}
    _prepare(cases, data, pythons)
    counted: dict[Case, int] = {}
    runs: dict[Case, list[dict]] = {case: [] for case in cases}
    try:
        for case in cases if _EPOCHS.value else ():
            if case.has_epochs:
                counted[case] = run_lib.epoch(case, data, python=pythons[case])["examples"]
                _tell(case, f"an epoch holds each of {counted[case]:,} examples once")
        with machine.taken(_BUSY_CORES.value):
            for number in range(_ROUNDS.value):
                for case in cases:
                    run = run_lib.cost(case, data, python=pythons[case], seconds=_SECONDS.value)
                    runs[case].append(run)
                    _tell(case, f"round {number + 1}: {run['cpu_us_per_example']:.3f} CPU µs an example")
    except run_lib.ReaderError as error:
        sys.exit(f"error: {error}")
    found = [figures(case, runs[case]) for case in cases]
    for workload in dict.fromkeys(case.workload for case in cases):
        print(results.table([one for one in found if one["workload"] == workload]), end="\n\n")
    print(results.verdicts(found))
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2) + "\n")
    if _RESULTS.value:
        text = results.page(
            found,
            counted=counted,
            forms={case: runs[case][-1]["form"] for case in cases},
            command=sys.argv,
            rounds=_ROUNDS.value,
            peers=pathlib.Path(_PEERS.value),
        )
        pathlib.Path(_RESULTS.value).write_text(text)


if __name__ == "__main__":
    app.run(main)

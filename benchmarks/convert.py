r"""Conversion side by side with its peers: CPU time of the whole process tree, wall time, peak memory.

  python -m benchmarks.convert --scratch=DIR [--workloads=tabular,images,text] [--rounds=3] [--scale=1,4,16] \
      [--json=FILE]

Every competitor runs in a process of its own. Rounds are interleaved, so that a change of the machine's load
meets all of them; figures are medians. Beyond a scale of 1 only the conversion itself runs, to tell how its
cost grows. --json writes a list of {workload, name, scale, cpu_us_per_row, wall_us_per_row, rows_per_s,
peak_mb, load}.

Hardware: any. Duration: about 10 minutes a round at scale 1 on 2 cores, most of it TFDS. Needs 1 GB in DIR;
5 GB at scale 16.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import app, flags

from benchmarks.conversion import raw_data as data
from pipeline.base.errors import InputError, answers_bad_input
from pipeline.data.schema import schema as schema_lib

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for raw data and output.", required=True)
_WORKLOADS = flags.DEFINE_list("workloads", ["tabular", "images", "text"], "What to convert.")
_NAMES = flags.DEFINE_list("names", [], "Competitors; all of them if none are named.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each competitor runs.", 1)
_SCALE = flags.DEFINE_list("scale", ["1"], "Multiples of the workload's rows.")
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")

ROWS = {"tabular": data.TABULAR_ROWS, "images": data.IMAGES, "text": data.TEXT_ROWS}
OURS = ("ours_rows", "ours_blocks")
COMPETITORS = (*OURS, "naive_beam", "tfds", "plain_writer", "copy")
_ROOT = pathlib.Path(__file__).parents[1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One workload at one scale; `source` is its raw data."""

    workload: str
    scale: int
    source: pathlib.Path

    @property
    def rows(self) -> int:
        return ROWS[self.workload] * self.scale


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one run: seconds, and MB of the largest process."""

    cpu: float
    wall: float
    peak: float
    load: float  # of the machine, over the last minute, when it started


def prepare(workload: str, scale: int, scratch: pathlib.Path) -> Case:
    """Writes the raw data, unless an earlier call did."""
    suffix = {"tabular": ".csv", "images": "", "text": ".txt"}[workload]
    case = Case(workload=workload, scale=scale, source=scratch / f"{workload}-{scale}{suffix}")
    if not case.source.exists():
        draft = scratch / f"draft{suffix}"
        write = {"tabular": data.write_table, "images": data.write_images, "text": data.write_text}[workload]
        write(draft, case.rows)
        draft.rename(case.source)
    return case


def command(name: str, case: Case, output: pathlib.Path) -> list[str]:
    """How the competitor is started; raises InputError for an unknown one."""
    if name not in COMPETITORS:
        raise InputError(
            "--names", received=name, expected=f"some of {', '.join(COMPETITORS)}", action="Correct the name."
        )
    if name == "copy":
        return ["cp", "-r", str(case.source), str(output / "copy")]
    if name not in OURS:
        peer = [sys.executable, "-m", "benchmarks.conversion.peers", name, case.workload]
        return [*peer, str(case.source), str(output)]
    schema = output.parent / "schema.json"
    schema_lib.save(_schema(case.workload, name), schema)
    flags_of = {"tabular": ["--format=csv"], "images": ["--format=images"], "text": ["--format=text"]}
    return [
        *(sys.executable, "-m", "beam_jobs.convert", f"--input=train={case.source}", f"--schema={schema}"),
        *(f"--output={output / 'dataset'}", f"--layout={name.removeprefix('ours_')}"),
        *flags_of[case.workload],
    ]


def run(name: str, case: Case, scratch: pathlib.Path) -> Cost:
    """Runs one competitor to its end, in an empty directory."""
    output = scratch / "output"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    started, load = time.monotonic(), os.getloadavg()[0]
    process = subprocess.Popen(
        command(name, case, output), cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)  # with all the children that it waited for itself
    if status:
        sys.exit(f"{name} failed:\n{errors[-3000:]}")
    return Cost(
        cpu=used.ru_utime + used.ru_stime,
        wall=time.monotonic() - started,
        peak=used.ru_maxrss / 1024,
        load=load,
    )


def figures(name: str, case: Case, costs: Sequence[Cost]) -> dict[str, object]:
    cpu, wall = (statistics.median(getattr(cost, field) for cost in costs) for field in ("cpu", "wall"))
    return {
        "workload": case.workload,
        "name": name,
        "scale": case.scale,
        "cpu_us_per_row": round(cpu / case.rows * 1e6, 2),
        "wall_us_per_row": round(wall / case.rows * 1e6, 2),
        "rows_per_s": round(case.rows / wall),
        "peak_mb": round(max(cost.peak for cost in costs)),
        "load": round(statistics.median(cost.load for cost in costs), 1),
    }


def table(found: Sequence[dict]) -> str:
    """One line a competitor, with its CPU time as a multiple of ours."""
    titles = ("CPU µs/row", "× ours", "rows/s", "MB", "load")
    head = "{:<9}{:>6} {:<13}{:>11}{:>8}{:>10}{:>7}{:>6}".format("workload", "scale", "name", *titles)
    ours = {(one["workload"], one["scale"]): one["cpu_us_per_row"] for one in found if one["name"] == OURS[0]}
    lines = []
    for one in found:
        ratio = one["cpu_us_per_row"] / ours.get((one["workload"], one["scale"]), float("nan"))
        lines.append(
            f"{one['workload']:<9}{one['scale']:>6} {one['name']:<13}{one['cpu_us_per_row']:>11,.1f}"
            f"{ratio:>8.2f}{one['rows_per_s']:>10,}{one['peak_mb']:>7,}{one['load']:>6}"
        )
    return "\n".join([head, *lines])


def _schema(workload: str, name: str) -> schema_lib.Schema:
    if workload == "tabular":
        return data.table_schema(vocabularies=name == "ours_blocks")
    return {"images": data.PICTURES, "text": data.LINES}[workload]


def _takes_part(name: str, case: Case) -> bool:
    if name == "ours_blocks":
        return case.workload == "tabular"  # the others have no fixed width
    return name in OURS or case.scale == 1


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch = pathlib.Path(_SCRATCH.value).absolute()
    scratch.mkdir(parents=True, exist_ok=True)
    cases = [
        prepare(workload, int(scale), scratch) for workload in _WORKLOADS.value for scale in _SCALE.value
    ]
    names = _NAMES.value or COMPETITORS
    pairs = [(name, case) for case in cases for name in names if _takes_part(name, case)]
    costs: dict[tuple[str, Case], list[Cost]] = {pair: [] for pair in pairs}
    for number in range(_ROUNDS.value):
        for name, case in pairs:
            costs[name, case].append(run(name, case, scratch))
            print(f"round {number + 1}: {case.workload} × {case.scale}, {name}", file=sys.stderr, flush=True)
    found = [figures(name, case, costs[name, case]) for name, case in pairs]
    print(table(found))
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    app.run(main)

"""Public models and all shipped configs through `pipeline.preflight`, for TPUs that are not there.

  python -m tests.soak.preflight_models --results=build/preflight.jsonl
  python -m tests.soak.preflight_models --results=build/preflight.jsonl --only='ViT*,GPT-2' --targets=v5e
  python -m tests.soak.preflight_models --results=build/preflight.jsonl --table

Each case is a command in a session of its own, with limits of time and memory, at which all of it is killed.
Results are lines of JSON: what is there is not run again. Three kinds of cases:

step    lint, two steps, lowering and compilation for one device
slice   the same for a slice of four chips, data-parallel
search  --find_max_batch; then, each in a command of its own and without the cache, that batch, which must
        fit, the smallest that the search saw refused, which must not, and one that can never fit, with its
        breakdown

It needs requirements/preflight.txt and requirements/models.txt. The exit code is 1 where one has no verdict.
"""

import argparse
import dataclasses
import fnmatch
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from pipeline.forecast.stages import SUMS
from pipeline.forecast.target import targets_of
from pipeline.report import formats
from tests.soak import processes
from tests.soak.public_models import CASES, ON_ALL_TARGETS, SEARCHED, Case, make_dataset, write_files

ROOT = pathlib.Path(__file__).parents[2]
_CHIP = {"v5e": "v5e:1x1", "tpu7x": "tpu7x:1x1x1", "v4": "v4:1x1x1", "v5p": "v5p:1x1x1", "v6e": "v6e:1x1"}
_SLICE = {"v5e": "v5e:2x2", "tpu7x": "tpu7x:2x2x1", "v4": "v4:2x2x1", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2"}
STEP, SLICE, SEARCH = "step", "slice", "search"
_ALWAYS = ("v5e", "tpu7x")
_NEVER_FITS = 1 << 17  # examples of a device
_LONGEST_REFUSAL = 60.0  # seconds of the processor
_LINES_OF_BREAKDOWN = 4
_GB = 1e9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    seconds: float  # by the clock, of a command
    gigabytes: float  # of all its processes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A line of the results."""

    case: Case
    kind: str
    generation: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.case.name, self.kind, self.generation


def jobs() -> Iterator[Job]:
    """All of them, the short ones first."""
    for generation in _ALWAYS:
        yield from (Job(case=each, kind=STEP, generation=generation) for each in CASES)
    yield from (Job(case=each, kind=SEARCH, generation="v5e") for each in CASES if each.name in SEARCHED)
    for case in (each for each in CASES if each.name in ON_ALL_TARGETS):
        for generation in _CHIP:
            if generation not in _ALWAYS:
                yield Job(case=case, kind=STEP, generation=generation)
            yield Job(case=case, kind=SLICE, generation=generation)


# --- A command with its limits.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended; `report` is its JSON, and `fault` what was wrong with how it ended."""

    report: Mapping
    fault: str
    cpu_seconds: float
    peak_gb: float


def preflight(
    job: Job, scratch: pathlib.Path, limits: Limits, *flags: str, batch: int = 0, is_cached: bool = True
) -> Ended:
    """Runs a preflight for `batch` examples of a device, or as many as the case has."""
    name = (_SLICE if job.kind == SLICE else _CHIP)[job.generation]
    (target,) = targets_of([name])
    dataset = make_dataset(scratch, job.case.dataset)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        report = pathlib.Path(folder) / "report.json"
        command = (
            *(sys.executable, "-m", "pipeline.preflight", *job.case.flags, f"--dataset={dataset}"),
            *(f"--target={name}", f"--batch={(batch or job.case.batch) * target.devices}", "--nofeed"),
            *(f"--json={report}", f"--timeout_s={limits.seconds:.0f}"),
            f"--cache={scratch / 'cache' if is_cached else ''}",
            *flags,
        )
        return _ended(command, scratch, report, limits)


def _ended(command: Sequence[str], scratch: pathlib.Path, report: pathlib.Path, limits: Limits) -> Ended:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    errors, before = report.with_name("errors"), _children_cpu()
    with errors.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=scratch,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )
        try:
            fault, spent, peak = _watched(process, limits)
        except BaseException:  # Ctrl-C, too: nothing lives on
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if left := processes.alive_after_a_second(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
        fault = f"{fault or 'it ended'}; {len(left)} of its processes lived on"
    if not fault and (process.returncode not in (0, 1) or not report.exists()):
        said = " ".join(errors.read_text(errors="replace").split())
        fault = f"exit code {process.returncode}: {said[-500:]}"
    read = {} if fault else json.loads(report.read_text())
    # What was killed is not among the children that were waited for.
    return Ended(report=read, fault=fault, cpu_seconds=spent or _children_cpu() - before, peak_gb=peak)


def _watched(process: subprocess.Popen, limits: Limits) -> tuple[str, float, float]:
    """Waits for a command's end, or kills its session at a limit: what was wrong, CPU seconds if it was
    killed, and the most memory in GB.
    """
    began, peak = time.monotonic(), 0.0
    while True:
        try:
            process.wait(0.5)
            return "", 0.0, peak
        except subprocess.TimeoutExpired:
            taken = processes.memory_bytes(process.pid) / _GB
            peak = max(peak, taken)
        fault = ""
        if taken > limits.gigabytes:
            fault = f"killed: it took more than {limits.gigabytes:g} GB"
        elif time.monotonic() - began > limits.seconds:
            fault = f"killed: no end within {limits.seconds:g} s"
        if fault:
            spent = processes.cpu_seconds(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return fault, spent, peak


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# --- What is found.


def run(job: Job, scratch: pathlib.Path, limits: Limits) -> dict[str, object]:
    """A line of the results."""
    found = _search(job, scratch, limits) if job.kind == SEARCH else _step(job, scratch, limits)
    return {"case": job.case.name, "kind": job.kind, "target": job.generation, **found}


def _step(job: Job, scratch: pathlib.Path, limits: Limits) -> dict[str, object]:
    flags = ["--nodata_parallel"] if job.kind == STEP else []
    if job.kind == SLICE or job.generation != _ALWAYS[0]:
        flags.append("--norehearse")  # the two steps do not depend on the target
    ended = preflight(job, scratch, limits, *flags)
    return {
        "batch": job.case.batch,
        **_forecast_of(ended),
        "cpu_seconds": round(ended.cpu_seconds, 1),
        "gb": round(ended.peak_gb, 1),
    }


def _forecast_of(ended: Ended) -> dict[str, object]:
    if ended.fault:
        return {"fault": ended.fault}
    (forecast,) = ended.report["targets"]
    rehearsal = [ended.report["rehearsal"]] if ended.report["rehearsal"] else []
    names = ("used_bytes", "available_bytes", "flops", "seconds", "cycles")
    return {
        "good": forecast["good"] and all(each["good"] is not False for each in rehearsal),
        "stages": [*rehearsal, *forecast["stages"]],
        **{name: forecast[name] for name in names},
        "largest": forecast["largest_batch_of_a_device"],
        "refused": forecast["refused_batch_of_a_device"],
    }


def _search(job: Job, scratch: pathlib.Path, limits: Limits) -> dict[str, object]:
    alone = ("--norehearse", "--nodata_parallel")
    searched = preflight(job, scratch, limits, *alone, "--find_max_batch")
    found = _forecast_of(searched)
    largest = found.get("largest") or 0
    faults = [found["fault"]] if searched.fault else [] if largest else ["no batch was found"]
    never = max(_NEVER_FITS, 8 * largest)
    refused = found.get("refused") or never
    wanted = {largest: True, refused: False, never: False} if largest else {never: False}
    checks, spent = [], [searched.cpu_seconds]
    for batch, fits in wanted.items():
        ended = preflight(job, scratch, limits, *alone, batch=batch, is_cached=False)
        spent.append(ended.cpu_seconds)
        checked = _forecast_of(ended)
        said = _compilation(checked)
        checks.append({"batch": batch, "verdict": said, "cpu_seconds": round(ended.cpu_seconds, 1)})
        if not said.startswith("compiles and fits" if fits else "does not fit"):
            faults.append(f"{batch}: {said}")
        elif not fits and len(checked["stages"][-1]["findings"]) < _LINES_OF_BREAKDOWN:
            faults.append(f"{batch}: no breakdown")
    if spent[-1] > _LONGEST_REFUSAL:
        faults.append(f"{never} was refused after {spent[-1]:.0f} CPU s")
    return {
        "largest": largest,
        "checks": checks,
        "breakdown": checked["stages"][-1]["findings"] if "stages" in checked else [],
        **({"fault": "; ".join(faults)} if faults else {}),
        "cpu_seconds": round(sum(spent), 1),
    }


def _compilation(found: Mapping) -> str:
    """The verdict of the last stage that was reached, of those that can say no."""
    stages = [each for each in found.get("stages", ()) if each["name"] != SUMS]
    return stages[-1]["verdict"] if stages else found["fault"]


# --- All of them.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="*", help="patterns of cases' names, by commas")
    parser.add_argument("--targets", default=",".join(_CHIP), help="generations, by commas")
    parser.add_argument("--kinds", default=f"{STEP},{SEARCH},{SLICE}", help="kinds of cases, by commas")
    parser.add_argument("--limit_s", type=float, default=1_500.0, help="the most seconds of a command")
    parser.add_argument("--limit_gb", type=float, default=8.0, help="the most memory of a command")
    parser.add_argument("--again", action="store_true", help="run what had a fault again")
    parser.add_argument("--table", action="store_true", help="print the results that there are")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    results = args.results.resolve()
    scratch = results.with_suffix("")
    scratch.mkdir(parents=True, exist_ok=True)
    done = _read(results)
    if not args.table:
        write_files(scratch)
        limits = Limits(seconds=args.limit_s, gigabytes=args.limit_gb)
        patterns, targets, kinds = (each.split(",") for each in (args.only, args.targets, args.kinds))
        for job in jobs():
            is_chosen = any(fnmatch.fnmatch(job.case.name, each) for each in patterns)
            if not is_chosen or job.generation not in targets or job.kind not in kinds:
                continue
            if job.key in done and not (args.again and "fault" in done[job.key]):
                continue
            done[job.key] = run(job, scratch, limits)
            print(json.dumps(done[job.key], ensure_ascii=False)[:400], flush=True)
            with results.open("a") as file:
                print(json.dumps(done[job.key], ensure_ascii=False), file=file)
    print("\n".join(table(list(done.values()))))
    return int(any("fault" in each for each in done.values()))


def _read(results: pathlib.Path) -> dict[tuple[str, str, str], dict]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {(each["case"], each["kind"], each["target"]): each for each in map(json.loads, lines)}


def table(results: Sequence[Mapping]) -> list[str]:
    """Rows of Markdown."""
    rows = [
        "| step | target | batch | verdict | memory | a step | CPU s |",
        "| --- | --- | --: | --- | --: | --: | --: |",
    ]
    rows += [_row(each) for each in results if each["kind"] != SEARCH]
    searched = [each for each in results if each["kind"] == SEARCH]
    if searched:
        rows += ["", "| step | target | largest batch | checked without the cache | CPU s |"]
        rows += ["| --- | --- | --: | --- | --: |", *map(_searched_row, searched)]
    return rows


def _row(found: Mapping) -> str:
    where = f"{found['target']}{', 4 chips' if found['kind'] == SLICE else ''}"
    verdict = found.get("fault") or _compilation(found)
    memory = time_ = ""
    if found.get("used_bytes"):
        memory = f"{formats.size(found['used_bytes'])} of {formats.size(found['available_bytes'])}"
    if found.get("seconds"):
        low, high = map(_short, found["seconds"])
        time_ = f"{low} to {high}" if low != high else f"at least {low}"
    cells = (found["case"], where, found["batch"], verdict, memory, time_, round(found["cpu_seconds"]))
    return f"| {' | '.join(map(str, cells))} |"


def _short(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-4 else f"{1e6 * seconds:.3g} µs"


def _searched_row(found: Mapping) -> str:
    checks = (
        f"{each['batch']:,}: {each['verdict']} ({each['cpu_seconds']:.0f} CPU s)" for each in found["checks"]
    )
    cells = (found["case"], found["target"], found["largest"], "; ".join(checks), round(found["cpu_seconds"]))
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())

"""The parts of `benchmarks.metal`: what each one runs, and the figures that follow."""

import dataclasses
import functools
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.accelerator import datasets
from benchmarks.commands import end, run_python, start_python
from pipeline.base import accelerators
from pipeline.base.errors import FailedError, InputError
from pipeline.training.state import checkpoints
from pipeline.training.state.workdir import Workdir, read_history

_COMPILING_S = 100  # of a forecast for a TPU, at most
_FOR_REHEARSAL = "h100"  # whose forecast a rehearsal shows
_TABULAR, _PICTURES = "pipeline/configs/tabular.py", "pipeline/configs/image_classification.py"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How much a check does.

    Attributes:
      rows, pictures, side: rows of the table; pictures, and their pixels a side.
      batch: pictures of a step.
      fed_steps: steps on the run's own input, and again on kept batches.
      run_steps: steps of each other run.
      rounds, workloads: what `benchmarks.train` measures.
    """

    rows: int
    pictures: int
    side: int
    batch: int
    fed_steps: int
    run_steps: int
    rounds: int
    workloads: str = "wide_deep,resnet"


METAL = Size(rows=65_536, pictures=2_048, side=128, batch=256, fed_steps=300, run_steps=400, rounds=3)
REHEARSAL = Size(rows=4_096, pictures=256, side=32, batch=32, fed_steps=20, run_steps=40, rounds=1)
QUICK = Size(
    rows=1_024, pictures=64, side=32, batch=16, fed_steps=4, run_steps=16, rounds=1, workloads="wide_deep"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """The check of one machine.

    Attributes:
      seen: what `probe devices` says of it.
      ends: when its minutes are over, by time.monotonic.
      asked: the target of the forecasts; empty: it follows from what was seen.
      peers: a virtual environment with torch.
    """

    folder: pathlib.Path
    seen: Mapping
    size: Size
    ends: float
    asked: str = ""
    peers: str = ""

    @property
    def is_rehearsal(self) -> bool:
        return self.seen["kind"] == "CPU"

    @property
    def devices(self) -> int:
        return 2 if self.is_rehearsal else self.seen["replicas"]

    @property
    def on_all(self) -> tuple[str, ...]:
        if self.is_rehearsal:
            return "--strategy=mirrored", f"--logical_devices={self.devices}"
        return ("--strategy=tpu",) if self.seen["kind"] == "TPU" else ("--strategy=mirrored",)

    @property
    def target(self) -> str:
        """The target of a forecast; raises InputError where it does not follow from what was seen."""
        known = accelerators.of_device(self.seen["name"])
        name = _FOR_REHEARSAL if self.is_rehearsal else known.target if known and not known.is_tpu else ""
        if not (self.asked or name):
            raise InputError(
                "--target", received="none", expected="what was rented, such as v5e:2x4", action="Name it."
            )
        return self.asked or f"{name}:{self.devices}"

    def python(self, *arguments: str, allowed: Sequence[int] = (0,)) -> str:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise FailedError(
                "the check",
                received="minutes that are over",
                expected="time for this part",
                action="Run it by itself, by --parts, or give more --minutes.",
            )
        return run_python(*arguments, timeout_s=left, allowed=allowed)

    def answer(self, name: str, *arguments: str, allowed: Sequence[int] = (0,)) -> dict:
        """What a command writes to --json."""
        path = self.folder / "answers" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.python("-m", *arguments, f"--json={path}", allowed=allowed)
        return json.loads(path.read_text())

    def table(self) -> pathlib.Path:
        return datasets.table(self.folder / "data", rows=self.size.rows)

    def run_of(self, name: str) -> pathlib.Path:
        return self.folder / "runs" / name

    def command(self, name: str, *more: str) -> list[str]:
        """Trains the tabular default for `run_steps` steps."""
        steps = self.size.run_steps
        return [
            *("pipeline.train", f"--config={_TABULAR}", f"--dataset={self.table()}", "--nobaseline"),
            *(f"--workdir={self.run_of(name)}", f"--config.train.steps={steps}"),
            *(f"--config.train.steps_per_loop={steps // 8}", f"--config.train.log_every_steps={steps // 4}"),
            *(f"--config.train.checkpoint_every_steps={steps // 4}", "--config.train.keep_best=", *more),
        ]

    def trained(self, name: str, *more: str) -> dict:
        """The metrics of a run, with its median speed and the replicas that it had."""
        metrics = self.answer(name, *self.command(name, *more))
        workdir = Workdir(self.run_of(name))
        points = read_history(workdir.history)
        rates = [point["examples_per_s"] for point in points if "examples_per_s" in point]
        record = json.loads(workdir.run.read_text())
        return {**metrics, "examples_per_s": statistics.median(rates), "replicas": record["replicas"]}

    def difference(self, one: str, other: str) -> dict:
        folders = (str(self.run_of(name)) for name in (one, other))
        return json.loads(self.python("-m", "benchmarks.accelerator.probe", "difference", *folders))


def fed(check: Check, *, of_pictures: bool) -> dict:
    """The speed on own input and on kept batches; with the share of the peak, and that of the forecast."""
    if of_pictures:
        data = datasets.pictures(check.folder / "data", count=check.size.pictures, side=check.size.side)
        config = [f"--config={_PICTURES}", f"--config.global_batch={check.size.batch}"]
    else:
        data, config = check.table(), [f"--config={_TABULAR}"]
    name = "pictures" if of_pictures else "table"
    arguments = [*config, f"--dataset={data}"]
    found = check.answer(
        f"fed_{name}",
        *("pipeline.train", *arguments, f"--workdir={check.run_of(f'fed_{name}')}", *check.on_all),
        f"--feed_headspace={check.size.fed_steps}",
    )
    try:
        forecast = check.answer(
            f"forecast_{name}",
            *("pipeline.preflight", *arguments, f"--target={check.target}", "--norehearse", "--nofeed"),
            *("--nodata_parallel", f"--timeout_s={_COMPILING_S}"),
            allowed=(0, 1),
        )
        [bound] = forecast["targets"]
    except InputError as error:  # what was measured stays
        bound = {"error": error.received}
    known = accelerators.of_device(check.seen["name"])
    return found | utilisation(found, known, devices=check.devices) | {"forecast": bound}


def utilisation(found: Mapping, known: accelerators.Accelerator | None, *, devices: int) -> dict:
    """The fed share of the time; operations a second, and their share of the peak where that is known.

    Args:
      found: what `--feed_headspace` writes.
    """
    done = found["flops_per_example"] * found["own"]["examples_per_s"]
    share = known.utilisation(done, devices=devices) if known else None
    return {"fed": min(1.0, 1.0 / found["gain"]), "flops_per_s": done, "mfu": share}


def resume(check: Check) -> dict:
    """A run that is killed behind its first checkpoint, and goes on, beside the same run undisturbed."""
    more = ("--deterministic", "--precision=float32", *check.on_all)
    check.trained("whole", *more)
    process = start_python("-m", *check.command("killed", *more))
    folder = Workdir(check.run_of("killed")).checkpoints
    while process.poll() is None and time.monotonic() < check.ends:
        if folder.exists() and checkpoints.newest_first(folder):
            break
        time.sleep(0.002)
    end(process)
    saved = checkpoints.newest_first(folder) if folder.exists() else []
    if not saved or saved[0].step >= check.size.run_steps:
        raise FailedError(
            "the run to be killed",
            received="no checkpoint" if not saved else "a run that had ended before",
            expected="a kill between its first checkpoint and its end",
            action="Try again.",
        )
    check.trained("killed", *more)
    return {"killed_behind": saved[0].step, "steps": check.size.run_steps} | check.difference(
        "whole", "killed"
    )


_ALIKE = ("--config.model.dropout=0.0",)  # each replica draws a mask of its own


def precision(check: Check) -> dict:
    """The same steps on one device (of a TPU: on all) in each format that the hardware computes."""
    where = check.on_all if check.seen["kind"] == "TPU" else ("--strategy=one_device",)
    return {
        policy: check.trained(policy, f"--precision={policy}", *_ALIKE, *where)
        for policy in check.seen["policies"]
    }


def replicas(check: Check) -> dict:
    """The same steps in float32 on all devices, and on one (of a TPU: on the host's processor)."""
    flags_ = ("--precision=float32", *_ALIKE)
    return {
        "one": check.trained("one", *flags_, "--strategy=one_device"),
        "all": check.trained("all", *flags_, *check.on_all),
        "difference": check.difference("one", "all"),
    }


def beside(check: Check) -> dict:
    """Microseconds an example of our loop, of `fit` and of torch."""
    size = check.size
    strategy = "tpu" if check.seen["kind"] == "TPU" else "one_device"
    cases = check.answer(
        "beside",
        *("benchmarks.train", "--clock=wall", f"--strategy={strategy}", f"--peers={check.peers}"),
        *("--loops=5", f"--rounds={size.rounds}", f"--workloads={size.workloads}"),
    )
    return {"cases": cases, "torch": any(case["subject"] == "torch" for case in cases)}


PARTS: Mapping[str, Callable[[Check], dict]] = {
    "fed_table": functools.partial(fed, of_pictures=False),
    "fed_pictures": functools.partial(fed, of_pictures=True),
    "resume": resume,
    "precision": precision,
    "replicas": replicas,
    "beside": beside,
}


def results(check: Check, parts: Mapping[str, Callable[[Check], dict]]) -> dict[str, dict]:
    """The figures of each part, or its error, and the seconds that it took."""
    found = {}
    for name, part in parts.items():
        began = time.monotonic()
        try:
            found[name] = {"figures": part(check)}
        except (InputError, OSError, ValueError, KeyError) as error:
            found[name] = {"error": str(error)}
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(f"{name}: {found[name].get('error', 'done')}, {found[name]['seconds']} s", file=sys.stderr)
    return found

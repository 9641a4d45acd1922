r"""What a training step costs beside `model.fit` and torch, on the same model and batches; in CPU time.

  make peers                                   # torch's environment; without it, torch is left out; or
                                               # --torch_packages=FOLDER, with torch for this Python
  python -m benchmarks.train [--rounds=5] [--loops=10] [--workloads=wide_deep,resnet] [--json=FILE]
  python -m benchmarks.train --workloads=tabular,resnet18,transformer --rounds=3
  python -m benchmarks.train --clock=wall      # on a GPU or TPU, if there is one: wall time, and no targets

All train in float32, on one device, without XLA: ours and `fit` in one process, torch in its own, from
batches that lie in memory. So torch is also compared with ours on a constant batch of `wide_deep`, without a
target. Rounds are interleaved, so that a change of the machine's load meets all. Figures are medians of the
whole process's CPU time. The exit code is 1 where a target is missed.

`wide_deep` and `resnet` are small. The others are as large as what users train: `tabular` is the network that
the rules choose for a large table, with its averages of the weights; `resnet18` is the published one for
ImageNet, on pictures of 32 x 32; and `transformer` that of the config, on packed bytes. Its optimizer here is
AdamW alone, because torch and Keras have no Muon of the same steps.

Hardware: Linux, any; best with nothing else running. Duration: on 2 cores 5 minutes for 5 rounds of the two
small ones; 3 rounds of the others take 3 CPU minutes.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from absl import app, flags

from benchmarks.training.targets import LONGEST, TORCH, Case, beside_torch, cases, verdicts
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

_ROUNDS = flags.DEFINE_integer("rounds", 5, "How often each is measured.", 1)
_LOOPS = flags.DEFINE_integer(
    "loops", 10, "A measurement has 32 times this number of steps; of larger networks fewer.", 5
)
_WORKLOADS = flags.DEFINE_list(
    "workloads", ["wide_deep", "resnet"], "What to train: also tabular, resnet18, transformer."
)
_CLOCK = flags.DEFINE_enum(
    "clock",
    "cpu",
    ["cpu", "wall"],
    "cpu: CPU time, without accelerators; wall: wall time, on one if it is there.",
)
_STRATEGY = flags.DEFINE_enum("strategy", "one_device", ["one_device", "tpu"], "Where --clock=wall trains.")
_PEERS = flags.DEFINE_string("peers", "build/peers", "Virtual environment of requirements/peers.txt.")
_TORCH_PACKAGES = flags.DEFINE_string(
    "torch_packages", "", "Folder with torch for this Python (pip install --target), in place of --peers."
)
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")


def table(costs: Mapping[Case, float], unit: str) -> str:
    """Microseconds an example of each case."""
    return "\n".join(f"{case!s:<44}{1e6 * cost:10.2f} {unit} an example" for case, cost in costs.items())


def _measured(chosen: Sequence[Case], folder: pathlib.Path) -> dict[Case, float]:
    from benchmarks.training import workloads
    from benchmarks.training.subjects import SUBJECTS, Place, this_processor
    from benchmarks.training.torch_peer import torch_loop
    from pipeline.training.engine import strategy

    if _CLOCK.value == "wall":
        place = Place(strategy=strategy.create(_STRATEGY.value), clock=time.perf_counter)
    else:
        place = this_processor()

    made = {
        name: getattr(workloads, name)(folder) for name in dict.fromkeys(case.workload for case in chosen)
    }
    constant = {name: made[name].constant() for name in {case.workload for case in chosen if case.constant}}
    trains = {
        case: torch_loop(
            made[case.workload],
            python=_torch(),
            packages=_TORCH_PACKAGES.value,
            folder=folder / f"torch_{case.workload}",
            clock=_CLOCK.value,
        )
        if case.subject == TORCH
        else SUBJECTS[case.subject](
            (constant if case.constant else made)[case.workload],
            steps_per_loop=case.steps_per_loop,
            place=place,
        )
        for case in chosen
    }
    rounds: dict[Case, list[float]] = {case: [] for case in chosen}
    for number in range(-1, _ROUNDS.value):  # the first one traces, and is left out
        for case in chosen if number % 2 else reversed(chosen):
            workload = made[case.workload]
            steps = max(case.steps_per_loop, LONGEST * _LOOPS.value // workload.weight)
            cost = trains[case](steps) / workload.global_batch
            if number >= 0:
                rounds[case].append(cost)
                print(f"round {number + 1}: {case}: {1e6 * cost:.2f}", file=sys.stderr, flush=True)
    return {case: statistics.median(found) for case, found in rounds.items()}


def _torch() -> pathlib.Path:
    """The Python that runs torch."""
    if _TORCH_PACKAGES.value:
        return pathlib.Path(sys.executable)
    return pathlib.Path(_PEERS.value).absolute() / "bin" / "python"


def main(argv: Sequence[str]) -> int:
    del argv
    with tempfile.TemporaryDirectory() as folder:
        chosen = cases(_WORKLOADS.value, torch=_torch().exists())
        costs = _measured(chosen, pathlib.Path(folder))
    # The targets are of CPU time.
    found = verdicts(costs) if _CLOCK.value == "cpu" else []
    print(table(costs, {"cpu": "CPU µs", "wall": "µs"}[_CLOCK.value]))
    print(*(line for line, _ in found), *beside_torch(costs), sep="\n")
    if not _torch().exists():
        print(f"torch was left out: {_PEERS.value} has no bin/python (make peers)")
    print(f"load {os.getloadavg()[0]:.1f}, {_ROUNDS.value} rounds of {_LOOPS.value} × {LONGEST} steps")
    if _JSON.value:
        figures = [
            {**dataclasses.asdict(case), f"{_CLOCK.value}_us_per_example": 1e6 * cost}
            for case, cost in costs.items()
        ]
        pathlib.Path(_JSON.value).write_text(json.dumps(figures, indent=2) + "\n")
    return not all(held for _, held in found)


if __name__ == "__main__":
    app.run(main)

"""Looks at devices and at checkpoints, with TensorFlow, in a process of its own; prints JSON.

python -m benchmarks.accelerator.probe devices
python -m benchmarks.accelerator.probe difference ONE_WORKDIR OTHER_WORKDIR
"""

import json
import pathlib
import sys
from collections.abc import Mapping

import numpy as np

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.report.comparison import largest_difference
from pipeline.training.engine import checkpoint, measures, precision, strategy
from pipeline.training.run.request import versions
from pipeline.training.state import checkpoints
from pipeline.training.state.workdir import Workdir


def devices() -> dict:
    """What the strategy of all devices computes on; `kind` is `CPU` where there is no accelerator."""
    found = strategy.create()
    hardware = precision.detect(found)
    return {
        "kind": hardware.kind,
        "name": measures.accelerator_of(found),
        "replicas": found.num_replicas_in_sync,
        "devices": list(found.extended.worker_devices),
        "policies": [
            "float32",
            *(["mixed_bfloat16"] if hardware.bfloat16 or hardware.kind == "CPU" else []),
            *(["mixed_float16"] if hardware.float16 else []),
        ],
        "versions": versions(),
    }


def difference(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict:
    """How many arrays of two checkpoints differ in a bit; the largest difference, and in which array.

    Raises:
      KeyError: `other` lacks one of the arrays.
    """
    differing = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    numbers = [name for name in differing if one[name].dtype.kind == "f"]
    largest = {name: largest_difference(other[name], one[name]) for name in numbers}
    worst = max(largest, key=largest.get, default="")
    return {
        "arrays": len(one),
        "differing": len(differing),
        "largest": largest.get(worst, 0.0),
        "of": worst,
    }


def _newest(workdir: str) -> dict[str, np.ndarray]:
    entry = checkpoints.newest_first(Workdir(pathlib.Path(workdir)).checkpoints)[0]
    paths = checkpoints.read_manifest(entry.path).variables
    values = checkpoint.load_tensors(entry.path)
    return {path: values[name] for name, path in paths.items()}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(devices(*arguments) if what == "devices" else difference(*map(_newest, arguments))))

"""run.json: what was run on what, and whether a working directory may go on with another command."""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Mapping

import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.data import order
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.training.precision import Precision
from pipeline.training.strategy import name_of

PACKAGES = ("tensorflow", "keras", "apache-beam", "numpy")

# What weights or the order of the examples depend on, and so must not change between two commands on one
# working directory. The rest (epochs, learning rate, callbacks, log points, …) may.
BOUND = (
    "model",
    "image_size",
    "seed",
    "global_batch",
    "image_dtype",
    "shuffle",
    "train.split",
    "train.weight",
    "mixture",
    "optimizer.name",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    config: ConfigDict
    dataset: Dataset
    workdir: pathlib.Path
    config_file: str = ""
    strategy: str = "auto"
    logical_devices: int = 1
    precision: str = "auto"
    max_corrupt_records: int = 0
    data_service: tuple[str, ...] = ()  # addresses
    command: str = ""


def describe(request: Request, strategy: tf.distribute.Strategy, precision: Precision) -> dict:
    """The part of run.json that is known before training starts."""
    return {
        "command": request.command,
        "dataset": str(request.dataset.directory),
        "dataset_digest": request.dataset.manifest.digest,
        "order": order.VERSION,
        "config_file": request.config_file,
        "config": plain(request.config),
        "strategy": name_of(strategy),
        "replicas": strategy.num_replicas_in_sync,
        "devices": list(strategy.extended.worker_devices),
        "precision": {"policy": precision.policy, "reason": precision.reason},
        "versions": _versions(),
        "machine": _machine(),
    }


def plain(config: ConfigDict) -> dict:
    """The config as JSON has it: tuples become lists."""
    return json.loads(json.dumps(config.to_dict(), default=repr))


def require_same(before: Mapping, now: Mapping) -> None:
    """Raises InputError where the working directory belongs to another run."""
    if before["dataset_digest"] != now["dataset_digest"]:
        raise _other("dataset", before["dataset_digest"][:12], now["dataset_digest"][:12])
    if before["precision"]["policy"] != now["precision"]["policy"]:
        raise _other("--precision", before["precision"]["policy"], now["precision"]["policy"])
    if before.get("order") != now["order"]:
        was = before.get("order") or "an older one"
        raise InputError(
            "--workdir, order of rows",
            received=f"version {now['order']}",
            expected=f"{was}, in which the run that this directory holds began",
            action="Choose an empty --workdir, or finish the run with the Penstock that began it.",
        )
    for key in BOUND:
        was, is_ = field(before["config"], key), field(now["config"], key)
        if was != is_:
            raise _other(f"--config.{key}", was, is_)


def field(config: Mapping, path: str) -> object:
    """The value at a dotted path such as `optimizer.name`."""
    value: object = config
    for name in path.split("."):
        value = value[name]
    return value


def _other(thing: str, was: object, is_: object) -> InputError:
    return InputError(
        f"--workdir, {thing}",
        received=is_,
        expected=f"{was}, as in the run that this directory holds",
        action="Choose an empty --workdir, or the same settings to continue that run.",
    )


def _versions() -> dict[str, str]:
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    try:
        own = importlib.metadata.version("penstock")
    except importlib.metadata.PackageNotFoundError:
        own = "not installed (run from its source)"
    return {"penstock": own, "python": platform.python_version(), **versions}


def _machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "platform": platform.platform(),
    }


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()

"""A user's request for a training run, and the record of it."""

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence

import tensorflow as tf

from pipeline.base import machine
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.window import spans_of
from pipeline.data.reading import order
from pipeline.training.engine import step
from pipeline.training.engine.precision import Precision
from pipeline.training.engine.strategy import name_of
from pipeline.training.engine.trace import Steps
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.own_classes import OwnCallbackCode
from pipeline.training.state.run_record import RunRecord

_PACKAGES = ("tensorflow", "tensorflow-tpu", "keras", "apache-beam", "numpy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    experiment: Experiment
    dataset: Dataset
    workdir: pathlib.Path
    config_file: str = ""
    strategy: str = "auto"
    logical_devices: int = 1
    precision: str = "auto"
    max_corrupt_records: int = 0
    deterministic: bool = False
    data_service: tuple[str, ...] = ()  # addresses of tf.data services
    command: str = ""
    profile_steps: Steps | None = None  # steps to record, for xprof
    warm_start: pathlib.Path | None = None  # working directory of the run that gives the first weights
    baseline: bool = False  # whether simple models are fitted at the end, to compare with
    learning_rate: str = ""  # and how it came about, in words
    defaults: tuple[str, ...] = ()  # lines on what the config left to rules


def describe(
    request: Request,
    strategy: tf.distribute.Strategy,
    precision: Precision,
    *,
    jit_compile: bool,
    total_steps: int,
    damaged_records: int,
    code: Mapping[str, Mapping[str, object]] | None = None,
    mixture_digests: tuple[str, ...] = (),
    warm_start: Mapping[str, object] | None = None,
    init: Mapping[str, object] | None = None,
    callbacks: Sequence[OwnCallbackCode] = (),
) -> RunRecord:
    """Returns the record of a run before it starts."""
    return RunRecord(
        command=request.command,
        dataset=str(request.dataset.directory),
        dataset_digest=request.dataset.manifest.digest,
        spans=spans_of(request.dataset),
        order=order.VERSION,
        update=step.VERSION,
        augmentation=request.experiment.data.augmentation.version,
        warm_start=dict(warm_start or {}),
        init=dict(init or {}),
        config_file=request.config_file,
        config=request.experiment.given,
        code=dict(code or {}),
        callbacks=tuple(map(dataclasses.asdict, callbacks)),
        mixture_digests=mixture_digests,
        strategy=name_of(strategy),
        replicas=strategy.num_replicas_in_sync,
        devices=tuple(strategy.extended.worker_devices),
        precision={"policy": precision.policy, "reason": precision.reason},
        versions=versions(),
        machine=_machine(),
        jit_compile=jit_compile,
        total_steps=total_steps,
        damaged_records=damaged_records,
    )


def versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str]:
    """Versions of Penstock, Python and those of the packages that are installed: a TPU has no
    `tensorflow`.
    """
    own = _version("penstock") or f"not installed (run from its source{source_commit()})"
    found = {package: _version(package) for package in packages}
    installed = {package: version for package, version in found.items() if version}
    return {"penstock": own, "python": platform.python_version(), **installed}


def source_commit(folder: pathlib.Path = pathlib.Path(__file__).parent) -> str:
    """The commit of the source, as `, commit HASH`, with `-dirty` where files differ from it; empty where git
    knows none.
    """
    command = ("git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    try:
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:  # git is not installed
        return ""
    return f", commit {said.stdout.strip()}" if said.returncode == 0 else ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": machine.processor("model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 1e9, 1),
        "platform": platform.platform(),
    }

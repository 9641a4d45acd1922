"""Runs a reader in a process of its own and samples the memory of its process tree from outside."""

import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

from benchmarks.process_tree import memory_bytes
from benchmarks.reading.cases import Case
from pipeline.base.errors import InputError

_ROOT = pathlib.Path(__file__).parents[2]
_SAMPLE_SECONDS = 0.2
_SAMPLE_SHARE = 0.02  # of a core, at most: a sample takes 20 ms, and readers need all cores
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",  # hosts are measured
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "STREAMING_TELEMETRY": "0",
    "HF_HUB_OFFLINE": "1",
}


class ReaderError(Exception):
    """A reader has failed; holds the end of what it wrote to stderr."""


def cost(case: Case, data: pathlib.Path, *, python: pathlib.Path, seconds: float) -> dict[str, float | str]:
    """What `measure.Cost` holds, `form`, `peak_mb` of the process tree, and the `load` before."""
    load = os.getloadavg()[0]
    found, peak = _run(case, data, python=python, seconds=seconds)
    return {**found, "peak_mb": peak / 1e6, "load": load}


def epoch(case: Case, data: pathlib.Path, *, python: pathlib.Path) -> dict[str, int]:
    """What `epoch.Ledger` holds; raises ReaderError unless every example came once."""
    ledger, _ = _run(case, data, python=python, seconds=0)
    if ledger["lost"] or ledger["repeated"] or ledger["foreign"]:
        raise ReaderError(f"{case.workload}, {case.name}: an epoch is not every example once: {ledger}")
    return ledger


def python_of(case: Case, peers: pathlib.Path) -> pathlib.Path:
    """The interpreter that has what the reader needs; raises InputError if it is not installed."""
    if not case.is_peer:
        return pathlib.Path(sys.executable)
    python = (peers / "bin" / "python").absolute()
    if not python.exists():
        raise InputError(
            f"--peers={peers}",
            received="no bin/python in it",
            expected=f"a virtual environment of requirements/peers.txt, which '{case.name}' needs",
            action="Install it with `make peers`, or choose others with --names.",
        )
    return python


def write_formats(workload: str, data: pathlib.Path, *, python: pathlib.Path) -> None:
    """Writes the workload in the formats of the peers."""
    command = [str(python), "-m", "benchmarks.peers.write", workload, str(data / workload)]
    subprocess.run(command, check=True, cwd=_ROOT, env={**os.environ, **_ENVIRONMENT})


def _run(case: Case, data: pathlib.Path, *, python: pathlib.Path, seconds: float) -> tuple[dict, int]:
    arguments = (case.reader, case.workload, str(data / case.workload), str(seconds))
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [str(python), "-m", "benchmarks.reading.measure", *arguments],
            cwd=_ROOT,
            env={**os.environ, **_ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            line, peak = _sampled(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # readers' workers do not all end with it
            process.wait()
        if line:
            return json.loads(line), peak
        errors.seek(0)
        tail = errors.read()[-3000:].decode(errors="replace")
        raise ReaderError(f"{case.workload}, {case.name} failed:\n{tail}")


def _sampled(process: subprocess.Popen) -> tuple[str, int]:
    """The first line that the process writes, and the most bytes that its tree held until then."""
    peak, pause = 0, _SAMPLE_SECONDS
    while not select.select([process.stdout], [], [], pause)[0]:
        started = time.perf_counter()
        peak = max(peak, memory_bytes(process.pid))
        pause = max(_SAMPLE_SECONDS, (time.perf_counter() - started) / _SAMPLE_SHARE)
    return process.stdout.readline(), peak

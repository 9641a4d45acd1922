"""Whether `--workers=N` can be had, beside the other flags and on this machine."""

import os
import pathlib

from pipeline.data.errors import InputError
from pipeline.training.workers.processes import CLUSTER

_STRATEGIES = ("auto", "multi_worker")
# On Linux with NVIDIA's driver.
_GPU = pathlib.Path("/dev/nvidia0")
# What a process with TensorFlow and a small model takes (2.21: 0.7 to 0.8 GiB, measured).
_WORKER_BYTES = 700 << 20


def check(workers: int, *, strategy: str, replicas: int, global_batch: int) -> None:
    """Raises InputError unless so many processes can train together here.

    Args:
      workers: 2 or more.
      strategy: of --strategy.
      replicas: of all workers.
    """
    flag = f"--workers={workers}"
    if os.environ.get(CLUSTER):
        raise InputError(
            flag,
            received=f"environment variable {CLUSTER} too, which names a cluster",
            expected="one of the two",
            action=f"Leave --workers away to be a worker of that cluster, or unset {CLUSTER}.",
        )
    if strategy not in _STRATEGIES:
        raise InputError(
            flag,
            received=f"--strategy={strategy} too, which is for one process",
            expected=f"--strategy={' or '.join(_STRATEGIES)}",
            action="Leave one of the two away.",
        )
    if _GPU.exists():
        raise InputError(
            flag,
            received="a machine with GPUs, of which each worker would take all",
            expected="a machine without, to try several workers on its processor",
            action="Use --strategy=mirrored here: one process feeds all GPUs of a machine.",
        )
    if workers > (most := _memory() // _WORKER_BYTES):
        raise InputError(
            flag,
            received=f"{workers:,} processes of {_WORKER_BYTES >> 20} MiB or more each",
            expected=f"at most {most}, for which this machine has memory",
            action="Start fewer.",
        )
    if global_batch < 1 or global_batch % replicas:
        raise InputError(
            "--config.global_batch",
            received=global_batch,
            expected=f"a positive multiple of the {replicas} replicas",
            action=f"Set --config.global_batch={max(1, round(global_batch / replicas)) * replicas}.",
        )


def _memory() -> int:
    """Bytes of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

"""Whether `--workers=N` can be had, beside the other flags and on this machine."""

import os
import pathlib

from pipeline.data.errors import InputError
from pipeline.training.workers.processes import CLUSTER

_STRATEGIES = ("auto", "multi_worker")
# On Linux with NVIDIA's driver.
_GPU = pathlib.Path("/dev/nvidia0")


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
    if global_batch < 1 or global_batch % replicas:
        raise InputError(
            "--config.global_batch",
            received=global_batch,
            expected=f"a positive multiple of the {replicas} replicas",
            action=f"Set --config.global_batch={max(1, round(global_batch / replicas)) * replicas}.",
        )

"""How many cores this process may use: TensorFlow sees those of the host, whatever its container may take."""

import os
import pathlib

CPU_QUOTA = pathlib.Path("/sys/fs/cgroup/cpu.max")


def host_cores() -> float:
    """Those that this process is bound to, within its container's quota."""
    # macOS binds no process.
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_QUOTA.read_text().split()
    except (OSError, ValueError):
        return float(bound)
    return float(bound) if quota == "max" else min(float(bound), int(quota) / int(period))

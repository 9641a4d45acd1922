"""The most memory that was held: of the host by this process, of its accelerators by TensorFlow."""

import pathlib
import re

import tensorflow as tf


def peaks() -> dict[str, float]:
    """MB (10⁶ bytes) since the process began; `device_peak_mb` is of the GPU that held most, if any."""
    status = pathlib.Path("/proc/self/status").read_text()
    host = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024 / 1e6  # Linux says kB for KiB
    gpus = range(len(tf.config.list_physical_devices("GPU")))
    device = [tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"] / 1e6 for index in gpus]
    return {"host_peak_mb": round(host, 1), **({"device_peak_mb": max(device)} if device else {})}

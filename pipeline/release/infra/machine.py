"""What decides the last bits of a prediction besides the model: TensorFlow's build and the processor."""

import os
import pathlib
import re

import tensorflow as tf

_CPUINFO = pathlib.Path("/proc/cpuinfo")


def computed_by() -> dict[str, str]:
    """Build and processor of this process. Where two are the same, so are all bits of what they compute.

    A matrix product is cut into as many parts as there are processors, and summed in their order.
    """
    return {
        "tensorflow": f"{tf.version.VERSION} {tf.version.GIT_VERSION}",
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
        "processor": _processor(),
        "processors": str(len(os.sched_getaffinity(0))),
        "devices": " ".join(sorted({device.device_type for device in tf.config.list_physical_devices()})),
    }


def _processor() -> str:
    """Its name as the kernel has it; empty where it has none."""
    text = _CPUINFO.read_text() if _CPUINFO.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else ""

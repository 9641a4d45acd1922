"""Facts of this machine and this process, as Linux tells them."""

import pathlib
import re

_CPU, _STATUS = pathlib.Path("/proc/cpuinfo"), pathlib.Path("/proc/self/status")


def processor(key: str) -> str:
    """Returns what the kernel says about the first processor, such as its `model name`; empty if it says
    nothing.
    """
    try:
        text = _CPU.read_text()
    except OSError:  # not Linux
        return ""
    found = re.search(rf"^{key}\s*: (.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def memory_bytes(field: str) -> int:
    """Returns the resident memory of this process: `VmRSS` now, `VmHWM` at its peak."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024  # kB means KiB here

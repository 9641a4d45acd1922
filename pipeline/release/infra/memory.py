"""Memory of this process, as Linux tells it; needs no package."""

import contextlib
import pathlib
import re
import resource

_STATUS = pathlib.Path("/proc/self/status")
_CLEAR = pathlib.Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"  # see proc(5)


def resident_mib() -> float:
    """What is in memory now."""
    return _told("VmRSS")


def peak_mib() -> float:
    """The most that was in memory since the start, or since `forget_peak`."""
    return _told("VmHWM")


def forget_peak() -> None:
    """Lets the peak be counted anew, where the kernel permits it."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_FORGET_PEAK)


def limit(mib: int) -> None:
    """Lets the kernel refuse what this process asks for beyond so much of memory that it can write to."""
    resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))


def _told(field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) / 1024

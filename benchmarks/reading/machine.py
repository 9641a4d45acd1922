"""The machine of a benchmark: its processor, caches and instructions, and loops that take its cores."""

import contextlib
import os
import pathlib
import platform
import subprocess
import sys
from collections.abc import Iterator

_INSTRUCTIONS = ("avx", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")  # that matter to readers


def described() -> str:
    """Its processor, cores, caches, instructions and memory."""
    known = {"processor": platform.machine(), "flags": "", **_processor()}
    instructions = [one for one in _INSTRUCTIONS if one in known["flags"].split()]
    parts = [
        known["processor"],
        f"{os.cpu_count()} cores",
        *_caches(),
        " ".join(instructions) or "none of " + " ".join(_INSTRUCTIONS),
        f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        platform.platform(),
    ]
    return ", ".join(parts)


# Until the process that began it has ended, however it did.
_BUSY = """import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000): pass
"""


@contextlib.contextmanager
def taken(cores: int) -> Iterator[None]:
    """Keeps `cores` cores busy inside the block, as far as the system gives them."""
    command = [sys.executable, "-c", _BUSY, str(os.getpid())]
    loops = [subprocess.Popen(command) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _processor() -> dict[str, str]:
    names = {"model name": "processor", "flags": "flags"}
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    pairs = (line.partition(":")[::2] for line in lines)
    return {names[key.strip()]: value.strip() for key, value in pairs if key.strip() in names}


def _caches() -> list[str]:
    """The caches of the first core, such as `L2 1024K`; cores share the third level."""
    caches = sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    found = [[(cache / name).read_text().strip() for name in ("level", "type", "size")] for cache in caches]
    return [f"L{level} {size}" for level, kind, size in found if kind != "Instruction"]

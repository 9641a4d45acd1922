"""Memory that this process frees stays with it, for what it allocates next.

By default the C library gives large blocks back to the kernel, which hands out its pages one by one and fills
each with zeros first. For a batch of mapped rows that takes longer than all else.

Each thread keeps what it needed at its peak. Blocks that are larger than the heap of a thread still go back.
"""

import ctypes
import os
from collections.abc import Mapping

HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE of glibc: what a heap of a thread holds at most
OLD_LARGEST_BYTES = 32 << 20  # larger ones were refused before the heaps could hold huge pages
KEPT_BYTES = 256 << 20  # at the end of the heap that all threads share

_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_")
# Of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def is_glibc() -> bool:
    return hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


def keep(environment: Mapping[str, str] = os.environ) -> bool:
    """Sets that for this process; whether it is set.

    Not where the C library is none of GNU's, or where the environment sets one of the three limits.
    """
    tunables = environment.get("GLIBC_TUNABLES", "")  # name=value, by colons
    names = (f"glibc.malloc.{name.removeprefix('MALLOC_').strip('_').lower()}=" for name in _VARIABLES)
    is_chosen = any(name in environment for name in _VARIABLES) or any(name in tunables for name in names)
    if is_chosen or not is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    largest = any(mallopt(_MMAP_THRESHOLD, size) for size in (HEAP_BYTES, OLD_LARGEST_BYTES))
    # With the last one, a heap of a thread is not given back as a whole where it is empty.
    return bool(largest and mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_TOP_PAD, HEAP_BYTES))

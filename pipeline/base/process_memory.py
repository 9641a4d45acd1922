"""Keeps memory that this process no longer needs, and collects garbage less often.

By default the C library gives large freed blocks back to the kernel. When memory is needed again, the kernel
hands out pages one by one and fills each with zeros. For a batch of mapped rows that takes longer than
everything else.

So the memory of the peak mostly stays until the process ends. Blocks that are larger than the heap of a
thread still go back.

By default Python looks for unused cycles whenever there are 700 more objects. Whenever there are a quarter
more, it looks through all objects, TensorFlow's too: a third of the time of opening 100,000 shards.
"""

import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Iterator, Mapping

HEAP_BYTES = 64 << 20  # HEAP_MAX_SIZE of glibc: the most that the heap of a thread holds
OLD_LARGEST_BYTES = 32 << 20  # older versions of glibc refuse larger ones
KEPT_BYTES = 256 << 20  # bytes that stay at the end of the main thread's heap

_LIMITS = ("trim_threshold", "top_pad", "mmap_threshold")
# Constants of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def is_glibc() -> bool:
    return hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


def keep_freed(environment: Mapping[str, str] = os.environ) -> bool:
    """Makes this process keep freed memory; returns whether it does.

    It does not where the C library is not GNU's, or where the environment sets one of the three limits.
    """
    tunables = environment.get("GLIBC_TUNABLES", "")  # name=value, separated by colons
    is_chosen = any(
        f"MALLOC_{limit.upper()}_" in environment or f"glibc.malloc.{limit}=" in tunables for limit in _LIMITS
    )
    if is_chosen or not is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    largest = any(mallopt(_MMAP_THRESHOLD, size) for size in (HEAP_BYTES, OLD_LARGEST_BYTES))
    # The last call keeps an empty heap of a thread from being given back as a whole.
    return bool(largest and mallopt(_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_TOP_PAD, HEAP_BYTES))


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Turns garbage collection off inside the block, for code that makes many objects that stay."""
    block = object()
    try:
        _PAUSE.begin(block)
        yield
    finally:
        _PAUSE.end(block)


class _Pause:
    """Counts the blocks, because threads may be in several at once: the first turns the collector off, the
    last on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[object] = set()  # the blocks that are running
        self._was_enabled = True

    def begin(self, block: object) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
            self._inside.add(block)
            gc.disable()

    def end(self, block: object) -> None:
        """Ends a block, also one whose `begin` was interrupted."""
        with self._lock:
            self._inside.discard(block)
            if not self._inside and self._was_enabled:
                gc.enable()


_PAUSE = _Pause()  # one for the process, because the collector is one for the process too

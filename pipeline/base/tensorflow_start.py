"""Imports TensorFlow, but hides what its C++ side prints at start-up. Import this before TensorFlow.

Those lines report normal things (a CPU's instruction set, the absence of a GPU), appear whatever the log
level, and bury the one line that a user should read. Warnings and errors stay; if the import fails,
everything is shown. It also keeps the memory that TensorFlow frees.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

from pipeline.base import process_memory
from pipeline.base.errors import check_address_space

# These exist on Linux with NVIDIA's driver, and in Windows' subsystem for Linux.
_GPU_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")


@contextlib.contextmanager
def standard_error_held_back() -> Iterator[None]:
    """Holds back what this process, C++ included, writes to stderr; shows it only if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        original = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except Exception:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


_HAS_GPU = any(pathlib.Path(path).exists() for path in _GPU_DEVICE_FILES)
# Without a GPU, TensorFlow logs an error about the absent driver. It also raises in Python what matters.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if _HAS_GPU else "3")

_ADDRESSES = 4_000_000_000  # bytes; training 240 rows on two cores reserved 3.1 GB, and aborted with 3.2

check_address_space(_ADDRESSES)
process_memory.keep_freed()
with standard_error_held_back():
    import tensorflow  # noqa: F401

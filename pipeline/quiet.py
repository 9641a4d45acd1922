"""Imports TensorFlow without what its C++ side prints at start-up. Import this before TensorFlow.

Those lines tell of normal things (a CPU's instruction set, the absence of a GPU), come before any log level
is looked at, and bury the one line that a user should read. Warnings and errors stay; if the import fails,
everything is shown.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

# Linux with NVIDIA's driver, and Windows' subsystem for Linux.
GPU_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg")


@contextlib.contextmanager
def standard_error_held_back() -> Iterator[None]:
    """Keeps what this process and its C++ code write to stderr, and shows it only if the block fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        original = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


HAS_GPU = any(pathlib.Path(path).exists() for path in GPU_DEVICE_FILES)
# Without a GPU, TensorFlow logs an error about the absent driver; what matters it raises in Python, too.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2" if HAS_GPU else "3")

with standard_error_held_back():
    import tensorflow  # noqa: F401

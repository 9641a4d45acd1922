"""Makes a folder once for all worker processes of a test session: what takes long is not made by each."""

import fcntl
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest


def folder(
    factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """Returns the folder `name`, which `make` fills for the first process that asks. Nobody changes it."""
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    path, whole = shared / name, shared / f"{name}.whole"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            make(path)
            whole.touch()
    return path

"""Which code trains and judges: a digest of this project's files and of what computes beneath them."""

import functools
import hashlib
import importlib.metadata
import pathlib
import platform

_PROJECT = pathlib.Path(__file__).parents[4]
_ROOMS = ("beam_jobs", "models", "pipeline")
# What trains, converts and judges; the sums of Python itself have other bits from 3.12 on.
_BENEATH = ("tensorflow", "keras", "numpy", "apache-beam", "pyarrow", "pillow", "scipy", "statsmodels")


@functools.cache
def digest() -> str:
    """SHA-256 of the sources, but for those of configs, which the cycle names by itself, and of versions."""
    found = hashlib.sha256()
    for room in _ROOMS:
        for path in sorted((_PROJECT / room).rglob("*.py")):
            inner = path.relative_to(_PROJECT)
            if "configs" not in inner.parts:
                found.update(f"{inner}\0".encode() + path.read_bytes() + b"\0")
    found.update(f"python {platform.python_version()}\0".encode())
    for name in _BENEATH:
        found.update(f"{name} {importlib.metadata.version(name)}\0".encode())
    return found.hexdigest()

"""The dataset as a library, and all commands as one: a thin layer over beam_jobs and pipeline.

May import every room; no room imports it. Start with dataset.py; cli.py starts the commands.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.dataset import Dataset, Split, index
    from penstock.dataset import open_dataset as open

__all__ = ["Dataset", "Split", "index", "open"]

_NAMES = {"open": "open_dataset"}  # names that differ in dataset.py


def __getattr__(name: str) -> object:
    # Only what is used is imported: `penstock --help` needs no NumPy.
    if name not in __all__:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    try:
        from penstock import dataset
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "google_crc32c"):
            raise
        needed = "penstock reads datasets with numpy and google-crc32c: pip install numpy google-crc32c"
        raise ModuleNotFoundError(f"{needed} (no module named {error.name!r})", name=error.name) from None
    return getattr(dataset, _NAMES.get(name, name))


def __dir__() -> list[str]:
    return __all__

"""Where certificates that were measured are kept, so that a check which was cut short goes on."""

import pathlib

SLOW_DISK = "slow disk"
EIGHT = (
    "table, rows",
    "table, blocks",
    "table, mapped",
    "tokens",
    "mixture",
    "images, uint8",
    "images, float32",
    "images, augmented",
)
ODD = (
    "photographs",
    "mixed photographs",
    "one by one",
    "tiny batches",
    "rows, 4 hosts",
    "mapped, 4 hosts",
    "one window",
    "Python function",
    "Python generator",
    "one-thread map",
    "far storage",
)
NAMES = (*EIGHT, SLOW_DISK)


def file_of(folder: pathlib.Path, cores: int, name: str, number: int) -> pathlib.Path:
    """The file of a certificate, of the round of that number."""
    return folder / f"{name} on {cores}, {number}.pickle"

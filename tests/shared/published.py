"""Compares what two runs published."""

import filecmp
import pathlib


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Paths of files that are not the same in both datasets, but for the record of how each was made."""
    found = (path.relative_to(root) for root in (one, other) for path in root.rglob("*") if path.is_file())
    names = sorted({str(path) for path in found} - {"conversion.json"})
    _, different, unreadable = filecmp.cmpfiles(one, other, names, shallow=False)
    return different + unreadable

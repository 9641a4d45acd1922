"""Where paths in a table's cells may lead: a table is data, and must not open any file of this machine."""

import os
from collections.abc import Sequence

from pipeline.data.errors import InputError


def check_root(folder: str) -> str:
    """`folder`; raises InputError unless it is there."""
    if "://" not in folder and not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(
            f"--path_root={folder}",
            received="no folder there",
            expected="a folder that paths in cells may lead into",
            action="Correct the path.",
        )
    return folder


def outside(paths: Sequence[str | None], roots: Sequence[str]) -> list[int]:
    """Positions of the paths that lead out of every root, links followed; an empty root is none."""
    local = tuple(_inside(os.path.realpath(root)) for root in roots if root and "://" not in root)
    remote = tuple(_inside(root) for root in roots if "://" in root)
    real_folders: dict[str, str] = {}  # few folders hold many files, and following links costs a call each
    found = []
    for row, path in enumerate(paths):
        if path is None:
            continue
        if "://" in path:
            is_inside = path.startswith(remote) and ".." not in path.split("/")
        else:
            is_inside = _real(path, real_folders).startswith(local)
        if not is_inside:
            found.append(row)
    return found


def _real(path: str, real_folders: dict[str, str]) -> str:
    folder, _, name = path.rpartition("/")
    if name in ("", ".", "..") or "\0" in path or os.path.islink(path):  # noqa: PTH114
        return "" if "\0" in path else os.path.realpath(path)
    if folder not in real_folders:
        real_folders[folder] = _inside(os.path.realpath(folder or ("/" if path.startswith("/") else ".")))
    return real_folders[folder] + name


def _inside(folder: str) -> str:
    return folder.rstrip("/") + "/"

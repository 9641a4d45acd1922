"""Reads the newest version over and over: `python -m tests.publishing.reader DIRECTORY VERIFIED SEEN [load]`.

It takes the highest number, as TensorFlow Serving does, and reads every byte. With `load` it also loads each
version once, and asks it for its number. SEEN gets a line a version. A line on stdin ends it; then it prints
what it met, as JSON.
"""

import json
import os
import pathlib
import select
import sys

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.publishing import versions
from tests.publishing import story


class Reader:
    """Counts what it met."""

    def __init__(self, directory: pathlib.Path, verified: pathlib.Path, *, loads: bool) -> None:
        self._directory, self._verified, self._loads = directory, verified, loads
        self.counts = {"reads": 0, "gone while read": 0, "versions": 0, "loads": 0}
        self.faults: list[str] = []
        self.seen: set[int] = set()

    def look(self) -> int | None:
        """Reads the newest version; returns its number if it was not read before."""
        version = max(versions.numbers(self._directory), default=None)
        if version is None:
            return None
        before = _identity(versions.path_of(self._directory, version))
        try:
            self._read(version)
        except (InputError, OSError, ValueError) as error:
            after = _identity(versions.path_of(self._directory, version))
            if before is not None and after == before:  # it is there, and not whole
                self.faults.append(f"version {version}: {error}")
            self.counts["gone while read"] += 1
            return None
        self.counts["reads"] += 1
        is_new = version not in self.seen
        self.seen.add(version)
        self.counts["versions"] = len(self.seen)
        return version if is_new else None

    def _read(self, version: int) -> None:
        document = versions.check(self._directory, version)
        if not (self._verified / documents.digest(document["files"])).exists():
            raise ValueError("never verified")
        if self._loads and version not in self.seen:
            import tensorflow as tf

            module = tf.saved_model.load(str(versions.path_of(self._directory, version)))
            told = int(module.told())
            self.counts["loads"] += 1
            if told != story.number_of(document["cycle"]):
                raise ValueError(f"it says {told}, and is of {document['cycle']}")


def _identity(path: pathlib.Path) -> int | None:
    """The folder behind a name; None where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def main() -> None:
    directory, verified, seen = map(pathlib.Path, sys.argv[1:4])
    reader = Reader(directory, verified, loads="load" in sys.argv[4:])
    with seen.open("w") as file:
        while not select.select([sys.stdin], [], [], 0)[0]:
            if version := reader.look():
                file.write(f"{version}\n")
                file.flush()
    print(json.dumps({"counts": reader.counts, "faults": reader.faults}))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

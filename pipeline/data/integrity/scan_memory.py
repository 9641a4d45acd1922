"""Remembers what comparing all records has found: files that stay as they are need not be read again."""

import hashlib
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence

from pipeline.data import atomic_files, file_state, ordinary_files, self_digest, waiting
from pipeline.data.dataset import index
from pipeline.data.dataset.selection import Selection
from pipeline.data.file_state import FileState
from pipeline.data.integrity.checksums import DamagedRecord, damaged_records

FORMAT = "penstock.scan/1"  # another where something else is compared


class ScanMemory:
    """What is damaged in selections, kept in a file.

    Args:
      path: of that file. An absent or damaged one only costs time. None: nothing is kept.
      clock: nanoseconds since 1970.
    """

    def __init__(self, path: pathlib.Path | None, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._path, self._clock = path, clock
        self._known = _loaded(path) if path else {}
        self._asked: dict[str, tuple[DamagedRecord, ...]] = {}

    def damaged(self, selection: Selection) -> tuple[DamagedRecord, ...]:
        """As `checksums.damaged_records`; reads nothing where the same files were compared before."""
        if not self._path:
            return damaged_records(selection)
        key, is_settled = self._key(selection)
        if key in self._known:
            self._asked[key] = self._known[key]
            return self._known[key]
        found = damaged_records(selection)
        if is_settled and self._key(selection)[0] == key:
            self._asked[key] = found
        return found

    def save(self) -> None:
        """Keeps what was asked for."""
        if self._path and self._asked and self._asked != self._known:
            damaged = {key: [vars(one) for one in found] for key, found in self._asked.items()}
            document = {"format": FORMAT, "damaged": damaged}
            atomic_files.write_json(self._path, self_digest.with_digest(document))

    def _key(self, selection: Selection) -> tuple[str, bool]:
        """What the result depends on: rows, published digests and the files; whether a change would show."""
        dataset, shards, now = selection.dataset, selection.shards, self._clock()
        said = hashlib.sha256(repr((dataset.manifest.digest, selection.record_ranges)).encode())
        files = [file for path in shards.paths for file in (path, index.file_name(path))]
        is_settled = True
        for states in waiting.in_turns(_states, files):
            is_settled = is_settled and all(state.is_settled(now) for _, state in states)
            said.update("".join(repr((file, tuple(state))) for file, state in states).encode())
        return said.hexdigest(), is_settled


def _states(files: Sequence[str]) -> list[tuple[str, FileState]]:
    return [(file, file_state.of(file)) for file in files]


def _loaded(path: pathlib.Path) -> Mapping[str, tuple[DamagedRecord, ...]]:
    try:
        document = json.loads(ordinary_files.read_bytes(path))
        self_digest.check(document)
        of_keys = document["damaged"] if document["format"] == FORMAT else {}
        return {key: tuple(DamagedRecord(**one) for one in found) for key, found in of_keys.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}

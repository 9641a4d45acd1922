"""Notices datasets that change while they are read: they never change after publication, so such a run ends.

Every file's size, times and inode are compared with those at its opening. A file for which they differ is
compared by its digest: one that was touched, or restored from a copy, is still the one that was published.
"""

import os
import pathlib
from collections.abc import Callable, Iterable

from pipeline.data import file_state
from pipeline.data.dataset import index, manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError

_Digest = Callable[[], str]  # of a file as it is now


class Watched:
    """The shards, indexes and manifests of selections: `check` is called as long as they are read."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._states: dict[str, int] = {}  # of each path, as it was when its content was last compared
        self._published: dict[str, tuple[str, _Digest]] = {}  # digest, and what tells the present one
        for selection in selections:
            self._watch(selection)

    def _watch(self, selection: Selection) -> None:
        shards, dataset = selection.shards, selection.dataset
        for each in dataset.published:
            if each.state:
                path = str(each.directory / manifest.FILE_NAME)
                self._add(path, hash(each.state), each.manifest.digest, lambda of=each: _of_manifest(of))
        used = set(shards.names)
        digests = {
            shard.path: shard.sha256
            for of_split in dataset.manifest.splits.values()
            for shard in of_split
            if shard.path in used
        }
        for name, path, states in zip(shards.names, shards.paths, shards.states.tolist(), strict=True):
            self._add_file(path, states[0], digests[name])
            of_index = dataset.manifest.digests_of_files.get(index.file_name(name), "")
            self._add_file(index.file_name(path), states[1], of_index)

    def _add_file(self, path: str, state: int, digest: str) -> None:
        self._add(path, state, digest, lambda: manifest.sha256(pathlib.Path(path)))

    def _add(self, path: str, state: int, digest: str, now: _Digest) -> None:
        self._states[path], self._published[path] = state, (digest, now)

    def check(self) -> None:
        """Raises InputError where a file is no longer the one that was opened."""
        for path, state in self._states.items():
            try:
                found = hash(file_state.of(path))
                if found != state:
                    self._compare(path)
            except FileNotFoundError:
                raise _changed(path, "no such file any more", self._published[path][0]) from None
            if found != state:
                self._states[path] = found

    def _compare(self, path: str) -> None:
        published, digest = self._published[path]
        found = digest()
        if found != published:
            size = os.stat(path).st_size  # noqa: PTH116
            raise _changed(path, f"{size:,} bytes of SHA-256 {found[:12]}…, changed meanwhile", published)


def _of_manifest(dataset: Dataset) -> str:
    """Digest of the manifest that stands in the dataset's directory now."""
    return manifest.load(dataset.directory).digest


def _changed(path: str, received: str, published: str) -> InputError:
    return InputError(
        f"dataset file {path}",
        received=received,
        expected=f"that of SHA-256 {published[:12]}…, which was there at the start: "
        "a dataset never changes after publication",
        action="Restore it from a copy, then repeat the command: a training run goes on from its last "
        "checkpoint. Publish new data in another directory.",
    )

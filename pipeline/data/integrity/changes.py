"""Notices datasets that change while they are read: they never change after publication, so such a run ends.

Every file's size, times and inode are compared with those at its opening. A file for which they differ is
compared by its digest: one that was touched, or restored from a copy, is still the one that was published.
"""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection

T = TypeVar("T")


class Watched:
    """The shards, indexes and manifests of selections: `check` is called as long as they are read."""

    def __init__(self, selections: Iterable[Selection]) -> None:
        self._states: dict[str, int] = {}  # state of each path when its content was last compared
        self._published: dict[str, str] = {}  # digest by path
        self._datasets: dict[str, Dataset] = {}  # the dataset whose manifest lies at a path
        for selection in selections:
            self._watch(selection)

    def _watch(self, selection: Selection) -> None:
        shards, dataset = selection.shards, selection.dataset
        for each in dataset.published:
            if each.state:
                path = str(each.directory / manifest.FILE_NAME)
                self._states[path], self._published[path] = hash(each.state), each.manifest.digest
                self._datasets[path] = each
        digests = {shard.path: shard.sha256 for each in dataset.manifest.splits.values() for shard in each}
        for name, path, states in zip(shards.names, shards.paths, shards.states.tolist(), strict=True):
            index_path = shards_lib.file_name(path)
            self._states[path], self._states[index_path] = states
            self._published[path] = digests[name]
            self._published[index_path] = dataset.manifest.digests_of_files.get(
                shards_lib.file_name(name), ""
            )

    def check(self) -> None:
        """Raises InputError where a file is no longer the one that was opened."""
        for paths in files.in_turns(self._others, list(self._states)):
            for path in paths:
                self._compare(path)

    def _others(self, paths: Sequence[str]) -> list[str]:
        """The paths whose files have changed since they were last compared."""
        return [path for path in paths if self._now(path) != self._states[path]]

    def _now(self, path: str) -> int:
        return self._read(path, lambda: hash(files.file_state(path)))

    def _read(self, path: str, read: Callable[[], T]) -> T:
        """Reads at a path; raises InputError where the file is gone, TryAgainError if it cannot be
        reached.
        """
        try:
            return files.retry(read)
        except OSError as error:
            if not _is_gone(error):
                raise files.unreadable(path, error) from None
            received = "no such file any more" if error.errno == errno.ENOENT else error.strerror
            raise _changed(path, received, self._published[path]) from None

    def _compare(self, path: str) -> None:
        state = self._now(path)
        found, size = self._read(path, lambda: (self._digest(path), os.stat(path).st_size))  # noqa: PTH116
        if found != self._published[path]:
            received = f"{size:,} bytes of SHA-256 {found[:12]}…, changed meanwhile"
            raise _changed(path, received, self._published[path])
        self._states[path] = state

    def _digest(self, path: str) -> str:
        if path in self._datasets:
            return manifest.load(self._datasets[path].directory).digest
        return files.sha256(path)


def _is_gone(error: OSError) -> bool:
    """Returns whether the file was replaced or deleted, and not only out of reach; ESTALE says so over a
    network.
    """
    return files.is_final_failure(error) or error.errno == errno.ESTALE


def _changed(path: str, received: str, published: str) -> InputError:
    return InputError(
        f"dataset file {path}",
        received=received,
        expected=f"the file with SHA-256 {published[:12]}…, which was there at the start: "
        "a dataset never changes after publication",
        action="Restore it from a copy, then repeat the command: a training run goes on from its last "
        "checkpoint. Publish new data in another directory.",
    )

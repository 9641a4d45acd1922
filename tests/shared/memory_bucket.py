"""A bucket in memory, with generations and conditions as Cloud Storage has: see bucket_test.py."""

import itertools
import pathlib
import threading
from collections.abc import Callable, Mapping

from pipeline.publishing.remote.bucket import ABSENT, RefusedError, Stored, crc32c


class MemoryBucket:
    """`before` is called ahead of each request that changes something, with such as ("write", ".lease")."""

    def __init__(self, before: Callable[[str, str], None] = lambda verb, name: None) -> None:
        self.before = before
        self._objects: dict[str, tuple[Stored, bytes]] = {}
        self._generations = itertools.count(1)
        self._lock = threading.Lock()

    def twin(self) -> "MemoryBucket":
        """Another bucket with the same objects."""
        twin = MemoryBucket()
        twin._objects, twin._generations = dict(self._objects), itertools.count(next(self._generations))
        return twin

    def list(self, prefix: str = "") -> list[Stored]:
        with self._lock:
            return [self._objects[name][0] for name in sorted(self._objects) if name.startswith(prefix)]

    def find(self, name: str) -> Stored | None:
        with self._lock:
            return self._objects[name][0] if name in self._objects else None

    def read(self, stored: Stored) -> bytes:
        with self._lock:
            self._check(stored.name, stored.generation)
            return self._objects[stored.name][1]

    def write(
        self,
        name: str,
        content: bytes | pathlib.Path,
        *,
        generation: int,
        metadata: Mapping[str, str] = {},
    ) -> Stored:
        self.before("write", name)
        content = content if isinstance(content, bytes) else content.read_bytes()
        with self._lock:
            self._check(name, generation)
            return self._put(name, content, metadata)

    def copy(self, source: Stored, target: str) -> Stored:
        self.before("copy", target)
        with self._lock:
            self._check(source.name, source.generation)
            self._check(target, ABSENT)
            found, content = self._objects[source.name]
            return self._put(target, content, found.metadata)

    def delete(self, stored: Stored) -> None:
        self.before("delete", stored.name)
        with self._lock:
            if stored.name in self._objects:
                self._check(stored.name, stored.generation)
                del self._objects[stored.name]

    def _check(self, name: str, generation: int) -> None:
        there = self._objects[name][0].generation if name in self._objects else ABSENT
        if there != generation:
            raise RefusedError(f"{name} has generation {there}")

    def _put(self, name: str, content: bytes, metadata: Mapping[str, str]) -> Stored:
        stored = Stored(
            name=name,
            generation=next(self._generations),
            size=len(content),
            crc32c=crc32c(content),
            metadata=dict(metadata),
        )
        self._objects[name] = (stored, content)
        return stored

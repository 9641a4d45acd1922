"""The interface of an object store: whole objects with generations, and writes that depend on them.

Under one name, no two contents share a generation. RefusedError means that a condition did not hold; the
store tests it and acts in one step, so that no other writer comes between.
"""

import base64
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import google_crc32c

ABSENT = 0  # as a generation: no object has that name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """An object in the store. `crc32c` is in base64, as in Cloud Storage; `size` is in bytes."""

    name: str
    generation: int
    size: int
    crc32c: str
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def holds(self, other: "Stored") -> bool:
        """Returns whether both have the same size and checksum."""
        return (self.size, self.crc32c) == (other.size, other.crc32c)


class RefusedError(Exception):
    """Raised where the object has another generation than the request named, is absent, or exists already."""


class Bucket(Protocol):
    """Objects under one prefix; names are relative to it. Lists and reads are up to date.

    Each method raises TryAgainError where the store does not answer, InputError where it denies access.
    """

    def list(self, prefix: str = "") -> Sequence[Stored]:
        """Lists every object whose name begins with `prefix`."""

    def find(self, name: str) -> Stored | None: ...

    def read(self, stored: Stored) -> bytes:
        """Reads an object; raises RefusedError where it is gone or has changed."""

    def write(
        self,
        name: str,
        content: bytes | pathlib.Path,
        *,
        generation: int,
        metadata: Mapping[str, str] = {},
    ) -> Stored:
        """Replaces the object of `generation` by a whole new one; ABSENT: no object may exist."""

    def copy(self, source: Stored, target: str) -> Stored:
        """Copies within the store; raises RefusedError if `source` changed or `target` exists."""

    def delete(self, stored: Stored) -> None:
        """Deletes an object, if it is still there; raises RefusedError where it has changed."""


def crc32c(content: bytes) -> str:
    """Returns the checksum as Cloud Storage does: 4 bytes, big-endian, in base64."""
    return encoded(google_crc32c.value(content))


def encoded(checksum: int) -> str:
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()

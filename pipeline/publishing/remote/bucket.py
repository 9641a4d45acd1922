"""What is asked of an object store: whole objects, each with a generation, and writes that depend on it.

A generation is a number that no two contents of a name ever share. `Refused` is the store's own word that a
condition did not hold; the store tests it and acts in one step, so no other writer comes between.
"""

import base64
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import google_crc32c

ABSENT = 0  # as a generation: there is no object of that name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stored:
    """An object as the store tells it. `crc32c` is in base64, as Cloud Storage has it; `size` in bytes."""

    name: str
    generation: int
    size: int
    crc32c: str
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def holds(self, other: "Stored") -> bool:
        """Whether both have the same bytes, as far as size and checksum tell."""
        return (self.size, self.crc32c) == (other.size, other.crc32c)


class RefusedError(Exception):
    """The object has another generation than the request named, or is not there, or is there already."""


class Bucket(Protocol):
    """Objects under one prefix; names are relative to it. Whatever it lists or finds is up to date.

    Each method raises TryAgainError where the store does not answer, InputError where it does not let us.
    """

    def list(self, prefix: str = "") -> Sequence[Stored]:
        """Every object whose name begins so."""

    def find(self, name: str) -> Stored | None: ...

    def read(self, stored: Stored) -> bytes:
        """Raises RefusedError where the object is gone, or another by now."""

    def write(
        self,
        name: str,
        content: bytes | pathlib.Path,
        *,
        generation: int,
        metadata: Mapping[str, str] = {},
    ) -> Stored:
        """Puts a whole object in the place of that of `generation`; ABSENT: where there is none."""

    def copy(self, source: Stored, target: str) -> Stored:
        """Copies within the store, metadata too; raises RefusedError unless `source` still is that one and
        there is no `target`.
        """

    def delete(self, stored: Stored) -> None:
        """Nothing happens where it is gone; raises RefusedError where it is another by now."""


def crc32c(content: bytes) -> str:
    """As Cloud Storage tells it: 4 bytes, big-endian, in base64."""
    return encoded(google_crc32c.value(content))


def encoded(checksum: int) -> str:
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()

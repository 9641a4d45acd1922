"""Keeps the shuffle out of memory: values go to files, and only their places go through the runner.

A local runner keeps everything that it shuffles in memory, or sends it through a socket. A distributed runner
has a shuffle of its own: it gets the values themselves.
"""

import dataclasses
import os
import pathlib
import uuid
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spill:
    """`directory` is on a disk that all workers share; if empty, the values themselves are sent."""

    directory: str

    def put(self, values: Sequence[bytes]) -> list[bytes]:
        """Returns what to send in place of each of `values`."""
        if not self.directory:
            return list(values)
        name = uuid.uuid4().hex
        ends = _write(pathlib.Path(self.directory, name), values)
        return [
            f"{name} {end - len(value)} {len(value)}".encode()
            for value, end in zip(values, ends, strict=True)
        ]

    def get(self, sent: bytes) -> bytes:
        """The value that `sent` stands for."""
        if not self.directory:
            return sent
        name, start, length = sent.decode().split()
        descriptor = os.open(pathlib.Path(self.directory, name), os.O_RDONLY)
        try:
            return os.pread(descriptor, int(length), int(start))
        finally:
            os.close(descriptor)

    def size(self, sent: bytes) -> int:
        """The bytes of the value that `sent` stands for."""
        return int(sent.decode().split()[2]) if self.directory else len(sent)


def make_spill(directory: str, *, runner: str) -> Spill:
    """Spills below the run's own `directory`, if it is on a disk; Dataflow has a shuffle of its own."""
    if runner == "DataflowRunner" or "://" in directory:
        return Spill(directory="")
    shuffle = pathlib.Path(directory, "shuffle")
    shuffle.mkdir()
    return Spill(directory=str(shuffle))


def _write(path: pathlib.Path, values: Sequence[bytes]) -> list[int]:
    """Writes `values` one after the other; gives the offset at which each one ends."""
    ends, offset = [], 0
    with path.open("xb") as file:
        for value in values:
            file.write(value)
            offset += len(value)
            ends.append(offset)
    return ends

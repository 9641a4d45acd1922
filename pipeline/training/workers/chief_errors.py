"""What the chief writes to stderr: shown at once, but for the line that tells of its end."""

import os
import sys
from typing import IO

_ENDS = (b"error: ", b"interrupted: ", b"Traceback ")
_INTERRUPTED = "interrupted: "
_SIZE = 1 << 16


class ChiefErrors:
    """Relays a pipe. From a line on that tells of an end all is held: another worker's may be the reason."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.descriptor = pipe.fileno()
        os.set_blocking(self.descriptor, False)
        self._is_open = True
        self._unfinished = b""  # a line
        self.held = b""

    @property
    def open_ones(self) -> list[int]:
        """The pipe, until it ends."""
        return [self.descriptor] if self._is_open else []

    def take(self) -> None:
        """Relays what is there."""
        while self._is_open:
            try:
                part = os.read(self.descriptor, _SIZE)
            except BlockingIOError:
                return
            self._is_open = bool(part)
            *lines, self._unfinished = (self._unfinished + part).split(b"\n")
            for line in lines:
                self._relay(line + b"\n")
        self._relay(self._unfinished)
        self._unfinished = b""

    def told(self) -> str:
        """What the chief said of being interrupted, for the line that ends the command; the rest is shown."""
        lines = self.held.decode(errors="replace").splitlines()
        told = [line.removeprefix(_INTERRUPTED) for line in lines if line.startswith(_INTERRUPTED)]
        for line in lines:
            if not line.startswith(_INTERRUPTED):
                print(line, file=sys.stderr)
        return (
            told[-1] if told else "the workers were ended; the same command goes on from the last checkpoint"
        )

    def _relay(self, line: bytes) -> None:
        if self.held or line.startswith(_ENDS):
            self.held += line
        else:
            os.write(sys.stderr.fileno(), line)

"""Runs a command on a terminal, and renders what a person then sees on it."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[2]
_ROWS = 24
_PARTS = re.compile(r"\x1b\[(\d*)([A-Za-z])|([\r\n\t\x08])|([^\x00-\x1f\x7f])|(.)", re.DOTALL)


def run(
    command: Sequence[object],
    *,
    columns: int = 80,
    env: Mapping[str, str] | None = None,
    cwd: pathlib.Path = ROOT,
) -> tuple[int, "Screen"]:
    """Returns the exit code, and the screen at the end: all output of the command is to the terminal."""
    environment = {**os.environ, "TERM": "xterm", **(env or {})}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    with opened(columns=columns) as (terminal, screen):
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
        process = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, check=False, **streams)
    return process.returncode, screen()


@contextlib.contextmanager
def opened(*, columns: int) -> Iterator[tuple[int, Callable[[], "Screen"]]]:
    """Gives a descriptor to write to, and a function that gives the screen once the block has ended."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    written: list[bytes] = []
    reader = threading.Thread(target=lambda: written.extend(_all_of(ours)))
    reader.start()
    try:
        yield theirs, lambda: Screen(b"".join(written).decode(errors="replace"), columns=columns)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


def _all_of(terminal: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
        while part := os.read(terminal, 1 << 16):
            yield part


class Screen:
    """What a terminal shows after `text`, with the lines that have left it at its top.

    Attributes:
      columns: of the terminal.
      lines: without the spaces at their ends.
      frames: each line that stood while the cursor left it, so that bars that were drawn over are seen too.
      obeyed: sequences and characters that this terminal does not know, or would not draw.
    """

    def __init__(self, text: str, *, columns: int) -> None:
        self.columns = columns
        self._cells: list[list[str]] = [[]]
        self._row = self._column = 0
        self.frames: list[str] = []
        self.obeyed: list[str] = []
        for count, letter, control, character, other in _PARTS.findall(text):
            if character:
                self._draw(character)
            elif control:
                self._control(control)
            elif letter:
                self._sequence(int(count or 1), count, letter)
            else:
                self.obeyed.append(other)

    @property
    def lines(self) -> list[str]:
        lines = ["".join(cells).rstrip() for cells in self._cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def _draw(self, character: str) -> None:
        if self._column == self.columns:
            self._control("\n")
            self._column = 0
        cells = self._cells[self._row]
        cells.extend(" " * (self._column + 1 - len(cells)))
        cells[self._column] = character
        self._column += 1

    def _control(self, control: str) -> None:
        self.frames.append("".join(self._cells[self._row]).rstrip())
        if control == "\n":
            self._row += 1
            self._cells.extend([] for _ in range(self._row + 1 - len(self._cells)))
        elif control == "\r":
            self._column = 0
        elif control == "\x08":
            self._column = max(0, self._column - 1)
        else:
            self._column = min(self.columns - 1, (self._column // 8 + 1) * 8)

    def _sequence(self, number: int, count: str, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - number)
        elif letter in "JK" and not count:
            del self._cells[self._row][self._column :]
            if letter == "J":
                del self._cells[self._row + 1 :]
        elif letter != "m":
            self.obeyed.append(f"ESC[{count}{letter}")

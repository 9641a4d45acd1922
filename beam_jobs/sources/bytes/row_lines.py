"""The line of a CSV file on which each row begins, as an editor counts: rows may have newlines in quotes."""

import threading

import numpy as np

from beam_jobs.sources.bytes.row_starts import LineEnds

_CR = ord("\r")
_AT_ONCE = 1 << 20  # 1 MiB: what is computed of it stays in the processor's cache


class RowLines:
    """Takes the bytes of a file or of a piece of it as they are read, and tells the lines of its rows.

    Rows are numbered from 0 as Arrow's reader does, which skips blank lines. Arrow reads in a thread of its
    own, so one thread may add while another asks.
    """

    def __init__(self, *, delimiter: str) -> None:
        self.count = 0  # lines that have ended
        self._ends = LineEnds(delimiter=delimiter)
        self._held = b""  # a \r that a \n may follow
        self._row_line = 1  # where the row that has not ended began
        self._row_bytes = 0  # of it, so far
        self._lock = threading.Lock()
        self._known: list[np.ndarray] = []  # lines of rows, from row `_first` on
        self._first = 0

    def add(self, block: bytes) -> None:
        """The next bytes; none at the end."""
        if not block:
            self._end()
        for start in range(0, len(block), _AT_ONCE):
            part = self._held + block[start : start + _AT_ONCE]
            self._held = part[-1:] if part.endswith(b"\r") else b""
            if part := part.removesuffix(self._held):
                self._scan(part)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """int64 [n]: the lines of `rows`, int64 [n]; 0 for a row that was not found here."""
        with self._lock:
            known = np.concatenate([np.zeros(0, np.int64), *self._known])
            self._known[:] = [known]
            first = self._first
        place = rows - first
        is_known = (place >= 0) & (place < len(known))
        lines = np.zeros(len(rows), np.int64)
        lines[is_known] = known[place[is_known]]
        return lines

    def forget(self, row: int) -> None:
        """Nobody will ask for rows before this one."""
        with self._lock:
            known = np.concatenate([np.zeros(0, np.int64), *self._known])
            self._known[:] = [known[max(0, row - self._first) :]]
            self._first = max(row, self._first)

    def _scan(self, part: bytes) -> None:
        lines, ends = self._ends.scan(part)
        # Each row begins where the one before ends; the first one began earlier.
        begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        sizes = ends - begins
        if len(ends):
            sizes[0] += self._row_bytes
        ended = np.searchsorted(lines, ends) if len(lines) > len(ends) else np.arange(len(ends))
        at = self.count + ended + 2  # the line behind each end of a row
        found = np.concatenate([[self._row_line], at[:-1]]) if len(ends) else at
        if len(ends):
            self._row_line, self._row_bytes = int(at[-1]), len(part) - int(ends[-1]) - 1
        else:
            self._row_bytes += len(part)
        self.count += len(lines)
        blank = sizes == 0
        alone = np.flatnonzero((sizes == 1) & (ends > begins))  # perhaps the first byte of a long end
        if len(alone):
            blank[alone] = np.frombuffer(part, np.uint8)[begins[alone]] == _CR
        self._keep(found[~blank])

    def _end(self) -> None:
        if held := self._held:
            self._held = b""
            self._scan(held)
        if self._row_bytes:
            self._keep(np.array([self._row_line]))
            self._row_bytes = 0

    def _keep(self, lines: np.ndarray) -> None:
        with self._lock:
            self._known.append(lines)

"""Progress of a local run: workers append to a small file, the launcher adds it up and draws a bar."""

import contextlib
import dataclasses
import os
import pathlib
import sys
import threading
from collections.abc import Iterator

import tqdm

_SECONDS_BETWEEN_LOOKS = 0.2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts of rows read and written so far. Every worker process appends lines and rewrites none."""

    path: str

    def add(self, *, read: int = 0, written: int = 0) -> None:
        # One short write in append mode is atomic, so lines of several processes do not mix.
        # Without O_CREAT: a worker that outlives a killed run must not bring its directory back.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            os.write(descriptor, f"{read} {written}\n".encode())
            os.close(descriptor)

    def totals(self) -> tuple[int, int]:
        """Rows read and rows written by all workers together."""
        lines = pathlib.Path(self.path).read_text().splitlines()
        counts = [tuple(map(int, line.split())) for line in lines]
        return sum(read for read, _ in counts), sum(written for _, written in counts)


@contextlib.contextmanager
def shown(progress: Progress, doing: str = "converting") -> Iterator[None]:
    """Draws a bar of rows written out of rows read, for as long as the block runs."""
    pathlib.Path(progress.path).touch()
    finished = threading.Event()
    painter = threading.Thread(target=_paint, args=(progress, doing, finished), daemon=True)
    painter.start()
    try:
        yield
    finally:
        finished.set()
        painter.join()


def _paint(progress: Progress, doing: str, finished: threading.Event) -> None:
    with tqdm.tqdm(unit=" rows", desc=doing, file=sys.stderr, disable=None, leave=False) as bar:
        while not finished.wait(_SECONDS_BETWEEN_LOOKS):
            bar.total, bar.n = progress.totals()
            bar.refresh()

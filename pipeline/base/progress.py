"""A progress bar: drawn on a terminal; in a log, a line from time to time."""

import sys
import time
from collections.abc import Callable, Iterable

from tqdm import tqdm

_AFTER_S = 2.0  # work that takes less needs no bar
_SECONDS_BETWEEN_LINES = 30.0


class Bar(tqdm):
    """A bar on stderr that goes away at its end; a line every 30 s where stderr is no terminal.

    Args:
      delay: seconds until it is drawn; 0 where the caller calls `refresh`.
      clock: seconds that never go back.
    """

    monitor_interval = 0  # no thread: it would be lost where a process forks

    def __init__(
        self,
        iterable: Iterable | None = None,
        *,
        delay: float = _AFTER_S,
        clock: Callable[[], float] = time.monotonic,
        **settings: object,
    ) -> None:
        self._is_watched, self._clock, self._last_line = sys.stderr.isatty(), clock, clock()
        super().__init__(iterable, file=sys.stderr, leave=False, delay=delay, miniters=1, **settings)

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Draws the bar, or prints a line where one is due; returns whether there is a bar to wipe off."""
        if self._is_watched:
            return super().display(msg, pos)
        if msg is None and self._clock() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = self._clock()
            self.fp.write(f"{self.format_meter(**{**self.format_dict, 'ncols': 0})}\n")
        return False

    def clear(self, nolock: bool = False) -> None:
        if self._is_watched:
            super().clear(nolock)

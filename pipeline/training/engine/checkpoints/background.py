"""One piece of work at a time, done beside the main thread."""

import threading
import time
from collections.abc import Callable


class Background:
    """Runs work in a thread. An error in it is raised by the next `wait`."""

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.seconds = 0.0  # that work has taken so far

    def start(self, work: Callable[[], None]) -> None:
        """Waits for the work before, then returns at once."""
        self.wait()
        # A daemon: a process that is told to end does not wait for it.
        self._thread = threading.Thread(target=self._run, args=[work], daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Returns when nothing is under way; raises what went wrong in it, once."""
        if self._thread:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error:
            raise error

    def _run(self, work: Callable[[], None]) -> None:
        start = self._clock()
        try:
            work()
        except BaseException as error:
            self._error = error
        self.seconds += self._clock() - start

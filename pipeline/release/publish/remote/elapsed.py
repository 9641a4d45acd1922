"""Time that passes, told by one machine to itself; tests let it pass as they like."""

import threading
import time
from typing import Protocol

# It counts while the machine sleeps, too.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Elapsed(Protocol):
    def now(self) -> float:
        """Seconds since some moment; never goes back."""

    def wait(self, seconds: float) -> None: ...

    def wait_for(self, event: threading.Event, seconds: float) -> bool:
        """Returns whether it came, at the latest after `seconds`."""


class RealTime:
    def now(self) -> float:
        return time.clock_gettime(_CLOCK)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait_for(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

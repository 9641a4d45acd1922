"""SIGBUS, which the kernel sends where a page of a mapped file is gone, ends a command in one line.

The thread that touched the page can do nothing but touch it again, and the main thread may wait for it. So
the thread that watches for signals ends the process. No thread of ours touches such a page while it holds
Python's lock: TensorFlow gathers without it.
"""

import contextlib
import faulthandler
import signal
import threading
from collections.abc import Callable, Iterator

from pipeline.data.commands import interrupt
from pipeline.data.errors import InputError
from pipeline.data.printable import printable


@contextlib.contextmanager
def answered(error: Callable[[], InputError]) -> Iterator[None]:
    """Ends the process with `error()` where a page is gone; elsewhere than in a command nothing is done."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not isinstance(handler, interrupt.Interrupts) or not is_main:
        yield
        return
    before, handler.bus_error = handler.bus_error, lambda: _line(error())
    signal.signal(signal.SIGBUS, _watched)
    try:
        yield
    finally:
        handler.bus_error = before
        if before is None:
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
            if faulthandler.is_enabled():  # whose own handler was replaced
                faulthandler.disable()
                faulthandler.enable()


def _line(error: InputError) -> tuple[str, int]:
    return f"error: {printable(str(error))}", error.exit_code


def _watched(number: int, frame: object) -> None:
    """Nothing: Python's own handler, below this one, has told the thread that watches."""

"""Signals while TensorFlow waits for the other workers of a cluster."""

import contextlib
import signal
from collections.abc import Iterator

from pipeline.data.commands import interrupt


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block a signal ends the process at once, but for SIGTERM.

    TensorFlow waits up to an hour for the others, and lets no Python code run meanwhile (2.21, measured): no
    handler would hear the signal. Nothing is there yet that had to be cleaned up. It takes SIGTERM itself,
    and only notes it.
    """
    numbers = [number for number in interrupt.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

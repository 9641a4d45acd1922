"""Ctrl-C ends a command with one line and exit code 130, whatever the command was doing.

It imports little, because a Ctrl-C before `installed` still ends in Python's traceback.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable

EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_LINE = b"interrupted: nothing half-done was published; the same command may run again\n"


class Interrupts:
    """Handles SIGINT: before there is anything to clean up it ends the process, later it raises.

    A second SIGINT is ignored: tools such as `timeout` send two, and cleaning up must end.
    """

    def __init__(self) -> None:
        self.came = False
        self._comes_again = False
        self._anything_to_clean_up = False
        # A copy, because imports of TensorFlow redirect file descriptor 2.
        self._stderr = os.dup(2)

    def __call__(self, number: int, frame: object) -> None:
        if self.came and not self._comes_again:
            return
        self.came, self._comes_again = True, False
        if not self._anything_to_clean_up:
            self.end()
        raise KeyboardInterrupt

    def guard(self, work: Callable[[], int]) -> int:
        """The exit code that `work` returns; a SIGINT meanwhile unwinds it and ends the process."""
        self._anything_to_clean_up = True
        sys.unraisablehook = self._raise_again
        threading.excepthook = self._tell_of_thread
        try:
            return work()
        except BaseException:
            # Libraries turn a KeyboardInterrupt into errors of their own, and jobs tell those in one line.
            if not self.came:
                raise
            self.end()
            raise
        finally:
            self._anything_to_clean_up = False

    def end(self) -> None:
        """Ends the process at once: threads of Beam and TensorFlow would keep it alive for seconds."""
        for stream in (sys.stdout, sys.stderr):
            try:  # noqa: SIM105 - contextlib takes long to import
                stream.flush()
            except (OSError, ValueError):  # nobody reads it any more
                pass
        os.write(self._stderr, _LINE)
        os._exit(EXIT_INTERRUPTED)

    def _tell_of_thread(self, failed: threading.ExceptHookArgs) -> None:
        """Silent after a SIGINT: a terminal sends it to the worker processes too, and threads miss those."""
        if not self.came:
            threading.__excepthook__(failed)

    def _raise_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Delivers a KeyboardInterrupt again that came where Python can raise nothing, as in `__del__`."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        self._comes_again = True
        # Later: here, too, nothing can be raised.
        again = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True  # a command that ends before is not to wait for it
        again.start()


def installed() -> Interrupts:
    """The handler of this process; installs it at the first call."""
    _open_closed_streams()
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, Interrupts):
        handler = Interrupts()
        signal.signal(signal.SIGINT, handler)
    return handler


def _open_closed_streams() -> None:
    """Gives a command that was started with `>&-` or `2>&-` streams that nobody reads."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)  # or files of child processes would take its number
            setattr(sys, name, os.fdopen(descriptor, mode))

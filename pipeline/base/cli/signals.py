"""SIGINT (Ctrl-C), SIGTERM and SIGHUP end a command in one line, whatever the command was doing.

It imports little, because a Ctrl-C before `installed` still ends in Python's traceback.
"""

import atexit
import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator

from pipeline.base.errors import InputError, answer, check_address_space, lacking, printable, shortage

_NOTHING_HALF_DONE = "nothing half-done was published; the same command may run again"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_UNWIND = 8.0  # after that the process ends in any case; the next run clears what it leaves
_SECONDS_TO_TELL = 0.5  # a pipe that nobody reads blocks the line
_SECONDS_BETWEEN_LOOKS = 0.05
# A second signal ends a command that was asked to stop. But `timeout` and terminals send one signal twice at
# once.
_SECONDS_OF_ONE_REQUEST = 1.0


def exit_code(number: int) -> int:
    """130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP, as shells count."""
    return 128 + number


class _Interrupt(KeyboardInterrupt):
    """Notices when it is deleted: if the process still runs then, a library has caught it and hidden it."""

    def __init__(self, gone: Callable[[], None]) -> None:
        super().__init__()
        self._gone = gone

    def __del__(self) -> None:
        self._gone()


class Interrupts:
    """Handles the signals: before there is anything to clean up it ends the process, later it raises.

    Python calls a handler only between two instructions of the main thread, which may block in a read, or
    compute in TensorFlow, when the signal comes. So a thread watches: it sends the signal again until it is
    handled, and ends the process if the clean-up does not. Only the first signal counts: tools such as
    `timeout` send two, and the clean-up must be able to end.
    """

    def __init__(self, done: str) -> None:
        self.came = 0  # the number of the signal that came
        self._was_raised = False
        self._anything_to_clean_up = False
        self.is_deferred = False
        self._taken: tuple[int, ...] = ()
        self._done = done
        # The message for the lost page of a mapped file: see SIGBUS below.
        self.bus_error: Callable[[], tuple[str, int]] | None = None  # returns the line and the exit code
        self._ending = threading.RLock()
        # A copy, because imports of TensorFlow redirect file descriptor 2.
        self._stderr = os.dup(2)

    def install(self) -> None:
        """Installs the handler; call it in the main thread. Signals that `nohup` ignores stay ignored."""
        for number in SIGNALS:
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                self._taken += (number,)
        self.take_signals()
        atexit.register(_ignore)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=[woken], daemon=True).start()

    def take_signals(self) -> None:
        """Registers this handler again, in case a library has replaced it since."""
        for number in self._taken:
            signal.signal(number, self)

    def __call__(self, number: int, frame: object) -> None:
        self.came = self.came or number
        if self._was_raised or self.is_deferred:
            return
        self._was_raised = True
        if not self._anything_to_clean_up:
            self.end()
        raise _Interrupt(self._raise_again)

    def answer(self, number: int, done: str) -> None:
        """Stops the handler from raising: the process unwinds, and ends with a line that says what was
        done.
        """
        self._was_raised, self.came, self._done = True, number, done

    def guard(self, work: Callable[[], int]) -> int:
        """The exit code that `work` returns; a signal meanwhile unwinds it and ends the process."""
        self._anything_to_clean_up = True
        sys.unraisablehook = self._tell_of_unraisable
        threading.excepthook = self._tell_of_thread
        try:
            try:
                return work()
            finally:
                self._anything_to_clean_up = False
        except BaseException:
            # Libraries turn a KeyboardInterrupt into errors of their own, and jobs report those in one line.
            if self.came:
                self.end()
            raise

    def end(self) -> None:
        """Ends the process at once: threads of Beam and TensorFlow would keep it alive for seconds."""
        self._was_raised = True
        self._ending.acquire()  # waits for ever: one thread ends the process, and says so once
        kill()
        report = threading.Thread(target=self._tell, daemon=True)
        report.start()
        report.join(_SECONDS_TO_TELL)
        os._exit(exit_code(self.came))

    def _watch(self, woken: int) -> None:
        """Waits for the first signal, and sees that the process ends."""
        self.came = self._next(woken)
        self._watch_deferred(woken)
        if not self._anything_to_clean_up:
            self.end()
        deadline = time.monotonic() + _SECONDS_TO_UNWIND
        while time.monotonic() < deadline:
            kill()  # again: Beam waits for its workers, and may start another
            if not self._was_raised:
                signal.pthread_kill(threading.main_thread().ident, self.came)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self.end()

    def _watch_deferred(self, woken: int) -> None:
        """Waits while the signal is deferred; a second one ends the process."""
        first = time.monotonic()
        while self.is_deferred:
            if not select.select([woken], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
                continue
            self._next(woken)
            if time.monotonic() - first > _SECONDS_OF_ONE_REQUEST:
                self.end()

    def _next(self, woken: int) -> int:
        """Waits for a signal; returns its number, unless it is one that ends the process at once."""
        number = os.read(woken, 1)[0]
        if number == signal.SIGBUS and self.bus_error:
            self._end_with(*self.bus_error())
        return number

    def _end_with(self, line: str, code: int) -> None:
        self._ending.acquire()
        kill()
        os.write(self._stderr, f"{line}\n".encode())
        os._exit(code)

    def _tell(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:  # noqa: SIM105 - contextlib takes long to import
                stream.flush()
            except (OSError, ValueError, RuntimeError):  # nobody reads it any more, or it is being written
                pass
        os.write(self._stderr, f"interrupted: {self._done}\n".encode())

    def _tell_of_thread(self, failed: threading.ExceptHookArgs) -> None:
        """Reports an error in a thread, but not after a signal: threads then fail because the worker
        processes are gone.

        A thread that ended for lack of memory ends the process: others might wait for it for ever.
        """
        if self.came:
            return
        if what := shortage(failed.exc_value):
            self._end_with(*_line(lacking(what, "this command")))
        threading.__excepthook__(failed)

    def _raise_again(self) -> None:
        """Lets the signal raise again: TensorFlow may have caught the first one, and `__del__` can raise
        nothing.
        """
        self._was_raised = False

    def _tell_of_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if not self.came and not shortage(unraisable.exc_value):
            sys.__unraisablehook__(unraisable)


def handle_signals(*, addresses: int = 0, done: str = _NOTHING_HALF_DONE) -> Interrupts:
    """The handler of this process; installs it at the first call.

    Args:
      addresses: bytes of address space that the imports and the work need: see `check_address_space`.
      done: what the line says that ends an interrupted command.
    """
    _open_closed_streams()
    handler = signal.getsignal(signal.SIGINT)
    if not isinstance(handler, Interrupts):
        handler = Interrupts(done)
        handler.install()
        sys.excepthook = _answer_shortage
    check_address_space(addresses)
    return handler


def _answer_shortage(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """Answers in one line where memory ends while a command's imports run: nothing else would catch it."""
    if not isinstance(error, InputError) and (what := shortage(error)):
        error = lacking(what, "this command")
    if isinstance(error, InputError):
        os._exit(answer(error))
    sys.__excepthook__(kind, error, trace)


def take_signals() -> None:
    """`Interrupts.take_signals` of this process, where it has a handler."""
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, Interrupts):
        handler.take_signals()


def signal_has_come() -> bool:
    """Returns whether this process was sent a signal that ends it: errors that follow are consequences."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, Interrupts) and bool(handler.came)


def _ignore() -> None:
    """Ignores signals. When Python ends, it restores their defaults: a signal would then make a command look
    failed, although it has done its work and said so.
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _open_closed_streams() -> None:
    """Gives a command that was started with `>&-` or `2>&-` streams that nobody reads."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)  # otherwise files of child processes would take its number
            setattr(sys, name, os.fdopen(descriptor, mode))


# --- Work that a signal does not break off: it stops where it can.


class Interrupted(KeyboardInterrupt):
    """Ends a command that got a signal and has now come to a point where it can stop.

    Args:
      number: the number of the signal.
      done: e.g. "saved at step 7", for the line that ends the command.
    """

    def __init__(self, number: int, done: str) -> None:
        super().__init__(done)
        self.number, self.done = number, done


class Deferred:
    """`with Deferred() as signals:` is a block in which a signal raises nothing.

    The block asks `signals.came()`; if a signal came, it soon ends with `Interrupted`. If it does not, the
    signal raises after the block as usual. A second one, a second or more after the first, ends the process
    at once. A process without a handler never sees one here.
    """

    def __init__(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        self._handler = handler if isinstance(handler, Interrupts) else None

    def came(self) -> int:
        """The number of the signal that came, or 0."""
        return self._handler.came if self._handler else 0

    def __enter__(self) -> "Deferred":
        if self._handler:
            self._handler.is_deferred = True
            self._handler.take_signals()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._handler:
            if isinstance(error, Interrupted):
                self._handler.answer(error.number, error.done)
            self._handler.is_deferred = False


# --- SIGBUS, which the kernel sends where a page of a mapped file is gone, ends a command in one line.
#
# The thread that touched the page can do nothing but touch it again, and the main thread may wait for it. So
# the thread that watches for signals ends the process. No thread of ours touches such a page while it holds
# Python's lock: TensorFlow gathers without it.


@contextlib.contextmanager
def answer_bus_errors(error: Callable[[], InputError]) -> Iterator[None]:
    """Ends the process with `error()` where a page is gone; outside a command, does nothing."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not isinstance(handler, Interrupts) or not is_main:
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
            if faulthandler.is_enabled():  # SIGBUS replaced its handler
                faulthandler.disable()
                faulthandler.enable()


def _line(error: InputError) -> tuple[str, int]:
    return f"error: {printable(str(error))}", error.exit_code


def _watched(number: int, frame: object) -> None:
    """Does nothing: Python's own handler, below this one, has informed the thread that watches."""


# --- The descendants of this process, from Linux's /proc.


_PARENT = 1  # index of the field in /proc/<pid>/stat, counted after the command's name


def kill() -> None:
    """Kills all descendants: what they write is temporary, and nobody would read their answers.

    They are stopped first, until no more are found: one that runs might start another in between.
    """
    stopped: list[int] = []
    while more := [pid for pid in descendants(os.getpid()) if pid not in stopped]:
        _send(more, signal.SIGSTOP)
        stopped += more
    _send(stopped, signal.SIGKILL)


def _send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:  # noqa: SIM105 - contextlib takes long to import
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended, or is another user's by now
            pass


def descendants(pid: int) -> list[int]:
    """Process ids, parents before their children; those that have ended are left out."""
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    found = [pid]
    for one in found:  # the list grows in the loop
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _parent(name: str) -> int:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            state, parent = file.read().rpartition(b")")[2].split()[: _PARENT + 1]
    except OSError:  # it has ended in the meantime
        return 0
    return 0 if state == b"Z" else int(parent)

"""Work that a signal does not break off: it comes to where it can stop, and ends the command there."""

import signal

from pipeline.data.commands import interrupt


class Interrupted(KeyboardInterrupt):
    """Ends a command that was asked to stop, and has brought its work to where it can stop.

    Args:
      number: of the signal.
      told: what was done, e.g. "saved at step 7", for the line that ends the command.
    """

    def __init__(self, number: int, told: str) -> None:
        super().__init__(told)
        self.number, self.told = number, told


class Deferred:
    """`with Deferred() as signals:` is a block in which a signal raises nothing.

    The block asks `signals.came()`, and ends soon where one came: by `Interrupted`. Without this answer the
    signal raises after the block as usual. A second one, a second or more after the first, ends the process
    at once. A process without a handler never sees one here.
    """

    def __init__(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        self._handler = handler if isinstance(handler, interrupt.Interrupts) else None

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
                self._handler.answer(error.number, error.told)
            self._handler.is_deferred = False

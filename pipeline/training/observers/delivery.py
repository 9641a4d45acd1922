"""Delivers the events of a run to its observers, one after another. A failing observer never fails the
run.
"""

import contextlib
import functools
import pathlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.base import redaction
from pipeline.training.observers.observer import Observer, Place, Point
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

_FIRST_WAIT_S, _LONGEST_WAIT_S = 30.0, 1800.0
_LONGEST_ERROR = 300  # characters of an error that are shown

_Event = Callable[[Observer], None]


class Observers:
    """Gives each observer every event in order, and repeats an event that failed.

    An observer that fails gets the event again when the next one comes, at the earliest after half a minute,
    then a minute, and so on to half an hour; and at the end of the run. A line says so once.

    Args:
      observers: observers by name.
      tell: takes that line.
      clock: function that gives seconds.
    """

    def __init__(
        self,
        observers: Mapping[str, Observer],
        workdir: Workdir,
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workdir = workdir
        self._has_started = False
        self._deliveries = [
            _Delivery(name, observer, tell=tell, clock=clock) for name, observer in observers.items()
        ]

    def started(self, record: RunRecord, history: Sequence[Point]) -> None:
        self._has_started = True
        for number, each in enumerate(self._deliveries):
            memory = self._workdir.observers / f"{number}-{each.name.rpartition(':')[2]}.json"
            place = Place(workdir=self._workdir.path, memory=memory)
            each.send(lambda observer, place=place: observer.started(record, place, history))

    def logged(self, point: Point) -> None:
        for each in self._deliveries:
            each.send(lambda observer: observer.logged(point))

    def finished(self, steps: int, evaluation: Mapping, report: pathlib.Path) -> None:
        for each in self._deliveries:
            each.send(lambda observer: observer.finished(steps, evaluation, report), is_last=True)

    @contextlib.contextmanager
    def told_of_failure(self) -> Iterator[None]:
        """Tells the observers if the block fails or is interrupted."""
        try:
            yield
        except BaseException as error:
            said = public_error(error)
            was_asked = isinstance(error, KeyboardInterrupt)
            for each in self._deliveries if self._has_started else ():
                each.send(functools.partial(_fail, said=said, was_asked=was_asked), is_last=True)
            raise


def _fail(observer: Observer, *, said: str, was_asked: bool) -> None:
    observer.failed(said, was_asked=was_asked)


def public_error(error: BaseException) -> str:
    """An error in one line, without secrets, and not too long for a person to read."""
    said = redaction.public_text(" ".join(str(error).split())) or type(error).__name__
    return said if len(said) <= _LONGEST_ERROR else f"{said[:_LONGEST_ERROR]}…"


class _Delivery:
    """Events that one observer has not accepted yet."""

    def __init__(
        self, name: str, observer: Observer, *, tell: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self.name = name
        self._observer, self._tell, self._clock = observer, tell, clock
        self._pending: deque[_Event] = deque()
        self._again_at, self._wait = 0.0, _FIRST_WAIT_S
        self._has_told = False

    def send(self, event: _Event, *, is_last: bool = False) -> None:
        self._pending.append(event)
        if not is_last and self._clock() < self._again_at:
            return
        try:
            while self._pending:
                self._pending[0](self._observer)
                self._pending.popleft()
                self._again_at, self._wait = 0.0, _FIRST_WAIT_S
        except Exception as error:
            self._again_at = self._clock() + self._wait
            self._wait = min(2 * self._wait, _LONGEST_WAIT_S)
            self._say(error)

    def _say(self, error: Exception) -> None:
        if not self._has_told:
            self._has_told = True
            said = f"{type(error).__name__}: {public_error(error)}"
            self._tell(f"warning    observer {self.name} failed; the run goes on, and tries again: {said}")

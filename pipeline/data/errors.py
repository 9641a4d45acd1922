"""The one exception that means "your input is wrong", and how a binary reports it."""

import functools
import re
import sys
from collections.abc import Callable, Sequence

from pipeline.data.printable import printable

EXIT_BAD_INPUT = 2
EXIT_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h, which schedulers know
FULL_DISK = "a disk that is full"  # as errors say it: what a child printed is known by this
_LONGEST_PART = 1000  # characters

# Errors of TensorFlow and of Beam's workers are known by their text. 27 is that of `ulimit -f`.
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large|\[Errno (?:27|28|122)\]")


class InputError(Exception):
    """Bad input, said in four parts: the thing, what it was, what it should be, what to do now.

    Raised instead of a bare ValueError wherever a user can cause it, so that every binary answers with
    one readable line and a non-zero exit instead of a traceback.
    """

    exit_code = EXIT_BAD_INPUT

    def __init__(self, thing: str, *, received: object, expected: str, action: str) -> None:
        self.thing = thing
        self.received = str(received)
        self.expected = expected
        self.action = action
        super().__init__(thing, self.received, expected, action)

    def __str__(self) -> str:
        thing, received, expected = map(_shortened, (self.thing, self.received, self.expected))
        return f"{thing}: received {received}; expected {expected}. {self.action}"

    def __reduce__(self) -> tuple:
        # Keyword-only arguments do not survive pickling by default, and Beam pickles what workers raise.
        return _rebuild, (type(self), self.thing, self.received, self.expected, self.action)


class TryAgainError(InputError):
    """Nothing is wrong with the input: the same command may succeed later. Someone else is busy with it, or
    what it needs is full or away.
    """

    exit_code = EXIT_TRY_AGAIN


def _shortened(text: str) -> str:
    """What a person reads of a text; a cell or a name may hold megabytes."""
    return text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}… ({len(text):,} characters)"


def _rebuild(kind: type[InputError], thing: str, received: str, expected: str, action: str) -> InputError:
    return kind(thing, received=received, expected=expected, action=action)


def disk_is_full(error: Exception) -> bool:
    """Whether it is an error, of whatever library, of a disk that is full or a quota that is used up."""
    return bool(_DISK_FULL.search(str(error)))


def disk_full(thing: str, *, room_for: str, action: str, kind: type[InputError] = InputError) -> InputError:
    """What is said of a disk that took no more of `thing`; `kind` says what follows for who called."""
    return kind(
        thing,
        received=f"{FULL_DISK}, or a quota or limit that is used up",
        expected=f"room for {room_for}",
        action=action,
    )


def answers_bad_input(main: Callable[[Sequence[str]], int | None]) -> Callable[[Sequence[str]], int]:
    """Wraps a binary's main: an InputError becomes `error: …` on stderr and exit code 2."""

    @functools.wraps(main)
    def wrapped(argv: Sequence[str]) -> int:
        try:
            return main(argv) or 0
        except InputError as error:
            return answer(error)

    return wrapped


def answer(error: InputError) -> int:
    """Prints the error as one line on stderr, and gives its exit code."""
    print(f"error: {printable(str(error))}", file=sys.stderr, flush=True)
    return error.exit_code

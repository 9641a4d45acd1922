"""The one exception that means "your input is wrong", and how a binary reports it."""

import contextlib
import difflib
import functools
import math
import os
import re
import resource
import sys
import typing
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h, which schedulers know
FULL_DISK = "a disk that is full"  # the words of errors, by which an error that a child printed is recognised
_LONGEST_PART = 1000  # characters of a part that are shown

# Errors of TensorFlow and of Beam's workers are recognised by their text. 27 is the errno of `ulimit -f`.
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


class FailedError(InputError):
    """The work failed, and nobody knows whether its input is the cause: a bug, say."""

    exit_code = EXIT_FAILED


class DamagedError(ValueError):
    """The bytes are not what was written. A caller that knows the file says so in an `InputError`."""


def _shortened(text: str) -> str:
    """Cuts a text to a length that a person can read; a cell or a name may hold megabytes."""
    return text if len(text) <= _LONGEST_PART else f"{text[:_LONGEST_PART]}… ({len(text):,} characters)"


def _rebuild(kind: type[InputError], thing: str, received: str, expected: str, action: str) -> InputError:
    return kind(thing, received=received, expected=expected, action=action)


def disk_is_full(error: Exception) -> bool:
    """Returns whether an error, of any library, means a full disk or a used-up quota."""
    return bool(_DISK_FULL.search(str(error)))


def disk_full(thing: str, *, room_for: str, action: str, kind: type[InputError] = InputError) -> InputError:
    """Returns the error for a full disk, which took no more of `thing`; `kind` decides what it means for the
    caller.
    """
    return kind(
        thing,
        received=f"{FULL_DISK}, or a quota or limit that is used up",
        expected=f"room for {room_for}",
        action=action,
    )


# --- Shortages of the machine, which are no fault of the input: the same command may succeed later.


# Recognised by their text, as above. A thread that cannot start lacks memory, or `ulimit -u` forbids it.
_SHORTAGES = {
    "too little memory": re.compile(
        r"MemoryError|bad_alloc|[Cc]annot allocate memory|failed to map segment|OOM when allocating"
        r"|\w*alloc of size \d+ failed|ResourceExhaustedError|can't start new thread"
        r"|pthread_create|Resource temporarily unavailable"
    ),
    "too many open files": re.compile(r"Too many open files"),
    "a disk that does not answer": re.compile(r"(?:Input/output error|Stale file handle)(?:: '[^'\n]*')?"),
}
_REFUSALS = {
    "a path that it may not use": re.compile(
        r"(?:Permission denied|Operation not permitted|Read-only file system)(?:: '[^'\n]*')?"
    )
}
_REQUESTED = re.compile(
    r"alloc of size (?P<bytes>\d+)|[Uu]nable to allocate (?P<size>[\d.]+) (?P<unit>[KMGTPE])iB"
)


def shortage(error: BaseException | None, *, is_repeated: bool = False) -> str:
    """Returns what the machine lacked, such as "too little memory", from an error and its causes.

    Empty if it lacked nothing, or if a damaged file asks for more memory than the machine has.

    Args:
      is_repeated: whether a scheduler repeats the command; then a missing permission counts, because it may
        be granted later.
    """
    patterns = _SHORTAGES | (_REFUSALS if is_repeated else {})
    while error is not None:
        if not isinstance(error, InputError):
            text = f"{type(error).__name__}: {error}"
            found = [(name, match) for name, each in patterns.items() if (match := each.search(text))]
            if found and _requested_bytes(text) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
                (name, match), path = found[0], getattr(error, "filename", None)
                detail = getattr(error, "strerror", None) or match[0]
                return f"{name} ({detail}{f': {path}' if path else ''})"
        error = error.__cause__ or error.__context__
    return ""


def _requested_bytes(text: str) -> float:
    found = _REQUESTED.search(text)
    if not found:
        return 0.0
    return float(found["bytes"] or float(found["size"]) * 1024.0 ** ("KMGTPE".index(found["unit"]) + 1))


def lacking(what: str, thing: str, *, action: str = "") -> TryAgainError:
    """Returns the error for a machine that lacks `what`, a result of `shortage`, for the work on `thing`."""
    return TryAgainError(
        thing,
        received=what,
        expected="what the work needs",
        action=action or "Give it more, or ask for less at once; then the same command may succeed.",
    )


@contextlib.contextmanager
def naming_shortages(thing: str, *, is_repeated: bool = False) -> Iterator[None]:
    """Raises TryAgainError in place of any error that a shortage has caused, even if it looks like bad
    input.
    """
    try:
        yield
    except TryAgainError:
        raise
    except Exception as error:
        if what := shortage(error, is_repeated=is_repeated):
            raise lacking(what, error.thing if isinstance(error, InputError) else thing) from None
        raise


def address_space() -> float:
    """Returns how many bytes of addresses this process may have; infinity without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


def check_address_space(needed: int) -> None:
    """Raises TryAgainError where `ulimit -v` leaves this process fewer bytes of addresses than it reserves.

    Where libraries get fewer, they end the process or wait for ever, and no error says why.
    """
    limit = address_space()
    if limit < needed:
        raise TryAgainError(
            "memory",
            received=f"a limit of {limit / 1e9:.1f} GB on the address space of a process (ulimit -v)",
            expected=f"{needed / 1e9:.1f} GB or more, as its libraries reserve",
            action="Raise the limit, such as with `ulimit -v unlimited`; limits of a cgroup do not count.",
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


# --- Suggestions for names that do not exist.


_CLOSE = 0.6  # similarity: `cvs` is 0.67 like `csv`, `age` 0.57 like `name`
# For a word in common, and more the longer it is: `batch_size` to `global_batch`, not `image_size`.
_WORD = 0.75
_INITIALS = 0.95  # for initials: `lr`, `learning_rate`


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name most like `given`, or None where none is close; among equals the shortest, then the first."""
    scored = [(-_likeness(given.lower(), name.lower()), len(name), name) for name in names]
    best = min(scored, default=None)
    return best[2] if best and -best[0] >= _CLOSE else None


def did_you_mean(given: str, names: Iterable[str], *, otherwise: str, form: str = "'{}'") -> str:
    """`Did you mean 'validation'?`, or `otherwise` where no name is close; `form` is the pattern for the
    name.
    """
    found = nearest(given, names)
    return f"Did you mean {form.format(found)}?" if found else otherwise


def unknown_name(
    thing: str,
    name: object,
    known: Collection[str],
    *,
    expected: str = "one of",
    received: str = "",
    otherwise: str,
) -> InputError:
    """Returns the error of a name that is not among those known; `received` may hold more than the name."""
    return InputError(
        thing,
        received=received or repr(name),
        expected=f"{expected} {', '.join(known)}".lstrip(),
        action=did_you_mean(str(name), known, otherwise=otherwise),
    )


def _likeness(given: str, name: str) -> float:
    """Returns the likeness, 0 to 1; 1 for equal names. A dotted name is compared as a whole and by its last
    part.
    """
    last = name.rpartition(".")[2]
    likeness = max(difflib.SequenceMatcher(None, given, one).ratio() for one in (name, last))
    words = _words(last)
    if len(words) > 1 and given == "".join(word[0] for word in words):
        likeness = max(likeness, _INITIALS)
    if len(given) > 2 and last.startswith(given):
        likeness = max(likeness, _WORD)
    common = max((len(word) for word in _words(given) if word in words), default=0)
    if common > 1:
        likeness = max(likeness, _WORD + (1 - _WORD) * common / len(given))
    return likeness


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name) if len(word) > 1]


# --- Text that is safe to print: names come from data, and a terminal obeys the control characters in them.


# Control characters, direction marks (which reorder what is shown), surrogates (which cannot be encoded),
# and the separators of lines and paragraphs.
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str, *, keep: str = "") -> str:
    r"""`text` with each character that a terminal obeys written out, such as `\x1b`, except those in
    `keep`.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _OBEYED
        else _escaped(character)
        for character in text
    )


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Makes all that Python prints while the block runs printable: tables, progress, logs and errors."""
    cursor = _Cursor()
    out = _Stream(sys.stdout, keep="\n\t", cursor=cursor)
    err = _Stream(sys.stderr, keep="\n\t\r", cursor=cursor)  # \r stays for progress bars
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


_WIPE = "\r\x1b[J"  # goes to the line's start, and clears it and everything below
_MOVES = re.compile(r"\n*(\x1b\[A)*")  # moves of tqdm between bars that stand below each other


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


class _Cursor:
    """Where the terminal's cursor stands, which both streams move."""

    is_behind_bar = False


class _Stream:
    """A text stream that makes everything printable before it is written.

    A line that comes while a progress bar stands on the terminal takes the bar's place; the bar is drawn
    again below it.
    """

    def __init__(self, stream: typing.TextIO, *, keep: str, cursor: _Cursor) -> None:
        self._stream = stream
        self._keep = keep
        self._cursor = cursor
        self._is_terminal = stream.isatty()

    def write(self, text: str) -> int:
        if self._is_terminal and "\x1b" in text and _MOVES.fullmatch(text):
            self._stream.write(text)
            return len(text)
        safe = printable(text, keep=self._keep)
        if self._is_terminal and safe:
            safe = self._beside_bar(safe)
        try:
            self._stream.write(safe)
        except UnicodeEncodeError:  # the terminal's own encoding has no such character
            encoding = self._stream.encoding
            self._stream.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def _beside_bar(self, text: str) -> str:
        """Returns the text, preceded by what wipes a bar off; a text of the bar itself begins with \\r."""
        wipe = _WIPE if self._cursor.is_behind_bar and text[0] not in "\r\n" else ""
        drawn = text.rpartition("\n")[2].rstrip(" ")
        if drawn or text.endswith("\n"):
            self._cursor.is_behind_bar = "\r" in drawn and not drawn.endswith("\r")
        return wipe + text

    def writelines(self, lines: typing.Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

"""Text that is safe to print: names come from data, and a terminal obeys the control characters in them."""

import contextlib
import sys
import typing
import unicodedata
from collections.abc import Iterator

# Control characters, direction marks (which reorder what is shown), surrogates (which cannot be encoded),
# and the separators of lines and paragraphs.
_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(text: str, *, keep: str = "") -> str:
    r"""`text` with each character that a terminal obeys written out, such as `\x1b`, less those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character in keep or unicodedata.category(character) not in _OBEYED
        else _escaped(character)
        for character in text
    )


@contextlib.contextmanager
def output() -> Iterator[None]:
    """Makes all that Python prints while the block runs printable: tables, progress, logs and errors."""
    out, err = _Stream(sys.stdout, keep="\n\t"), _Stream(sys.stderr, keep="\n\t\r")  # \r: progress bars
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


class _Stream:
    """A text stream, everything written to which is made printable first."""

    def __init__(self, stream: typing.TextIO, *, keep: str) -> None:
        self._stream = stream
        self._keep = keep

    def write(self, text: str) -> int:
        shown = printable(text, keep=self._keep)
        try:
            self._stream.write(shown)
        except UnicodeEncodeError:  # the terminal's own encoding has no such character
            encoding = self._stream.encoding
            self._stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: typing.Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

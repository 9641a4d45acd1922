"""The encoding of a text file: found from its bytes, and turned into UTF-8."""

import codecs
from collections.abc import Iterator, Sequence

import pyarrow as pa

from beam_jobs.sources.pieces.byte_stream import ByteStream
from pipeline.data.errors import InputError

UTF_8 = "utf-8"
# A mark of UTF-32 begins with one of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_OF_HOST_NAMES = ("idna", "punycode")
_NOT_UTF_8 = b"\xff"
_ZEROS = 0.25  # of every second byte, from which text is UTF-16


def encoding_of(samples: Sequence[bytes]) -> str:
    """The encoding of a file from its start and, perhaps, other parts that begin and end with lines.

    Latin-1 (or cp1252, which has letters where Latin-1 has control characters) is what bytes are that do not
    read as UTF-8, unless most letters do: then some rows are damaged.
    """
    marked = utf_16_of(samples[0])
    if marked:
        return marked
    text = "".join(sample.decode(UTF_8, "surrogateescape") for sample in samples)
    foreign = {letter for letter in text if not letter.isascii()}
    wrong = {letter for letter in foreign if "\udc80" <= letter <= "\udcff"}
    proper = sum(map(text.count, foreign - wrong))
    if proper >= sum(map(text.count, wrong)):
        return UTF_8
    return "cp1252" if any(letter < "\udca0" for letter in wrong) else "latin-1"


def is_marked(start: bytes) -> bool:
    """Whether the file that begins so has a byte order mark, which tells its encoding."""
    return start.startswith(tuple(_MARKS))


def utf_16_of(start: bytes) -> str | None:
    """What a byte order mark says or, of UTF-16 without one, the zeros between letters; None: neither."""
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    pairs = max(1, len(start) // 2)
    high, low = start[1::2].count(0) / pairs, start[0::2].count(0) / pairs
    if max(high, low) < _ZEROS or min(high, low) > _ZEROS / 2:
        return None
    return "utf-16-le" if high > low else "utf-16-be"


def check(name: str) -> str:
    """`name`, UTF-8 in one spelling; raises InputError unless it is an encoding of text."""
    try:
        known = codecs.lookup(name)
        if not known._is_text_encoding or known.name in _OF_HOST_NAMES:
            raise LookupError
        b"\xff\x80".decode(name, "replace")  # "undefined" raises
    except (LookupError, ValueError, TypeError):  # a name with NUL gives a ValueError
        raise InputError(
            "--encoding",
            received=name,
            expected="an encoding that Python knows, such as utf-8, utf-16, latin-1 or cp1252",
            action="Correct the name.",
        ) from None
    return UTF_8 if known.name in (UTF_8, "utf-8-sig") else name


def keeps_ascii_bytes(name: str) -> bool:
    """Whether delimiters, quotes and newlines are the bytes of ASCII, and no other character has them."""
    return name == UTF_8 or len(bytes(range(128, 256)).decode(name, "replace")) == 128 == len(
        bytes(range(128)).decode(name, "replace").encode("ascii", "ignore")
    )


class Utf8Stream:
    """The bytes of `stream` as UTF-8. What cannot be decoded becomes bytes that are not UTF-8."""

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream = stream
        # A half of a surrogate pair, or a byte that means nothing: left to the row that holds it.
        errors = "surrogatepass" if encoding.startswith("utf-") else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._ready, self._has_ended = b"", False

    def read(self, size: int) -> bytes:
        while not self._ready and not self._has_ended:
            block = self._stream.read(size)
            self._has_ended = not block
            self._ready = self._decoded(block)
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _decoded(self, block: bytes) -> bytes:
        try:
            return self._decoder.decode(block, final=self._has_ended).encode(UTF_8, "surrogatepass")
        except UnicodeDecodeError:  # numbers that no character has, or the file ends within one
            self._decoder.reset()
            return _NOT_UTF_8

    def close(self) -> None:
        self._stream.close()


def parts(stream: pa.NativeFile, size: int, *, part_bytes: int, number: int) -> Iterator[bytes]:
    """Whole lines of about `part_bytes` at `number` places spread over a file of `size` bytes."""
    for place in range(1, number + 1):
        stream.seek(size * place // (number + 1))
        block = stream.read(part_bytes)
        yield block[block.find(b"\n") + 1 : block.rfind(b"\n") + 1]

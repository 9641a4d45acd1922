"""Reads serialized `tf.train.Example`s with NumPy: neither TensorFlow nor protobuf is needed.

The records of a file nearly always have the same entries in the same order. So many of them are read in step:
what one record has at a place is looked for in all of them, with one call of NumPy for each part of an entry.
Records that differ are read one by one. Both ways give what protobuf gives; `tfrecord.py` writes this format.
Values that nobody asks for are skipped, as TensorFlow's parser does.

Wire format: https://protobuf.dev/programming-guides/encoding/; messages: tensorflow/core/example/*.proto.
"""

import dataclasses
import functools
import math
import struct
from collections.abc import Container, Iterator, Sequence

import numpy as np

from pipeline.data.dataset.tfrecord import varint
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


class NotAnExampleError(ValueError):
    """Raised where a record cannot be read by the schema.

    Args:
      record: its number among the records to read.
    """

    def __init__(self, record: int, reason: str) -> None:
        super().__init__(reason)
        self.record, self.reason = record, reason


_DTYPES = {"float": np.dtype("<f4"), "int64": np.dtype("<i8"), "bytes": np.dtype(object)}
_AT_ONCE_BYTES = 8 << 20  # 8 MiB of records: more leave the processor's cache
_MOST_LAYOUTS = 8  # layouts of entries that are tried on records


class ExampleReader:
    """Reads the features of a schema from serialized Examples; an absent value becomes the feature's fill."""

    def __init__(self, schema: Schema) -> None:
        self._features = {feature.name.encode(): feature for feature in schema.features}
        self._layouts: list[_Layout] = []  # the layout that fitted last comes first

    def read(self, records: Sequence[bytes]) -> dict[str, np.ndarray]:
        """Records → the features [n, *shape] each: float32, int64, or strings as bytes objects.

        Raises:
          NotAnExampleError: a record is not an Example, lacks a value that has no fill, or has other values
            than the schema says.
        """
        columns = {name: _empty(each, len(records)) for name, each in self._features.items()}
        left = np.arange(len(records))
        for layout in list(self._layouts):
            left = self._read_in_step(layout, records, left, columns)
        while (
            len(left) > 1
            and len(self._layouts) < _MOST_LAYOUTS
            and (layout := self._layout_of(records[left[0]]))
        ):
            if layout in self._layouts:
                break
            self._layouts.insert(0, layout)
            left = self._read_in_step(layout, records, left, columns)
        for number in left.tolist():
            self._read_alone(number, records[number], columns)
        return {name.decode(): column for name, column in columns.items()}

    def _read_in_step(
        self,
        layout: "_Layout",
        records: Sequence[bytes],
        numbers: np.ndarray,
        columns: dict[bytes, np.ndarray],
    ) -> np.ndarray:
        """Reads those of the records `numbers` that have this layout; returns the numbers of the others."""
        if len(numbers) < 2:  # one record takes less time by itself
            return numbers
        together = (
            records if len(numbers) == len(records) else [records[number] for number in numbers.tolist()]
        )
        left = [
            numbers[first:end][~self._step(layout, together[first:end], numbers[first:end], columns)]
            for first, end in _pieces(together)
        ]
        if len(left[0]) < len(numbers) and self._layouts[0] is not layout:
            self._layouts.remove(layout)
            self._layouts.insert(0, layout)
        return np.concatenate(left)

    def _step(
        self,
        layout: "_Layout",
        records: Sequence[bytes],
        numbers: np.ndarray,
        columns: dict[bytes, np.ndarray],
    ) -> np.ndarray:
        """Reads records into the rows `numbers` of the columns; returns which have the layout, bool [n]."""
        cursor = _Cursor(records, room=layout.room)
        cursor.example()
        for entry in layout.entries:
            values = cursor.entry(entry)
            if entry.feature is not None:
                columns[entry.name][numbers] = values
        cursor.end()
        for name in layout.absent:
            columns[name][numbers] = _fill(self._features[name])
        return cursor.fits

    def _layout_of(self, record: bytes) -> "_Layout | None":
        """The layout of a record; None if it cannot be read in step."""
        try:
            found = [(name, kind) for name, kind, _ in _entries(record, self._features)]
        except ValueError:
            return None
        names = [name for name, _ in found]
        wanted = [(name, kind) for name, kind in found if name in self._features]
        absent = [name for name in self._features if name not in names]
        if (
            len(set(names)) < len(names)
            or any(kind != self._features[name].wire for name, kind in wanted)
            or any(_count(self._features[name]) != 1 for name, kind in wanted if kind == "bytes")
            or any(self._features[name].fill is None for name in absent)
        ):
            return None
        entries = tuple(_Entry(name=name, feature=self._features.get(name)) for name in names)
        return _Layout(entries=entries, absent=tuple(absent))

    def _read_alone(self, number: int, record: bytes, columns: dict[bytes, np.ndarray]) -> None:
        try:
            entries = _entries(record, self._features)
            # Where a name repeats, the last one counts.
            found = {name: (kind, values) for name, kind, values in entries}
        except ValueError as error:
            raise NotAnExampleError(number, str(error)) from None
        for name, feature in self._features.items():
            kind, values = found.get(name, (None, ()))
            if kind is None:
                if feature.fill is None:
                    raise NotAnExampleError(number, f"it has no feature '{feature.name}'")
                columns[name][number] = _fill(feature)
                continue
            if kind != feature.wire or len(values) != _count(feature):
                raise NotAnExampleError(
                    number,
                    f"its feature '{feature.name}' has {len(values):,} values of type {kind}, "
                    f"not {_count(feature):,} of type {feature.wire}",
                )
            columns[name][number] = _shaped(values, feature)


def _empty(feature: Feature, records: int) -> np.ndarray:
    return np.empty((records, *feature.shape), _DTYPES[feature.wire])


def _count(feature: Feature) -> int:
    return math.prod(feature.shape)


def _fill(feature: Feature) -> float | int | bytes | None:
    return feature.fill.encode() if isinstance(feature.fill, str) else feature.fill


def _shaped(values: Sequence, feature: Feature) -> object:
    if not feature.shape:
        return values[0]
    shaped = np.empty(len(values), _DTYPES[feature.wire])
    shaped[:] = values
    return shaped.reshape(feature.shape)


def _pieces(records: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Ranges of records, first and end, each of some MiB."""
    at_once = max(1, _AT_ONCE_BYTES // max(1, sum(map(len, records)) // len(records)))
    for first in range(0, len(records), at_once):
        yield first, min(first + at_once, len(records))


# --- Many records in step.

_TAG = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}  # tags of `Feature`'s oneof: field number << 3 | 2
_LIST, _EXAMPLE = b"\x0a", b"\x0a"
_MOST_VARINT = 10  # bytes
_WORD = 8  # bytes
_SHORT = 0x80  # a length below this takes one byte
_ALL = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class _Entry:
    name: bytes
    feature: Feature | None  # None: nobody asks for this entry

    @functools.cached_property
    def head(self) -> bytes:
        """The bytes between the length of the entry and that of its value: key = 1, value = 2."""
        return b"\x0a" + varint(len(self.name)) + self.name + b"\x12"

    @property
    def numbers(self) -> int:
        return _count(self.feature) if self.feature is not None else 0


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The entries of a record in their order, and the features that it lacks."""

    entries: tuple[_Entry, ...]
    absent: tuple[bytes, ...]

    @functools.cached_property
    def room(self) -> int:
        """The most bytes that are read at once, or more."""
        return max((len(each.head) + 4 * each.numbers for each in self.entries), default=0) + 4 * _WORD


class _Cursor:
    """A place in each of n records, which all move together; records that do not fit are left behind."""

    def __init__(self, records: Sequence[bytes], *, room: int) -> None:
        self._joined = b"".join((*records, bytes(room)))
        self._size = len(self._joined)
        self._data = np.frombuffer(self._joined, np.uint8)
        # The word that starts at each byte.
        self._words = np.ndarray(self._size - _WORD + 1, "<u8", self._joined, strides=1)
        self._ends = np.cumsum([len(record) for record in records])
        self._at = np.concatenate([[0], self._ends[:-1]])
        self._nowhere = self._size - room  # from here on only zeros follow
        self.fits = np.ones(len(records), bool)

    def example(self) -> None:
        """Moves past the head of an Example, which has one field."""
        self._expect(_EXAMPLE)
        self._require(self._varint() + self._at == self._ends)

    def end(self) -> None:
        self._require(self._at == self._ends)

    def entry(self, entry: _Entry) -> np.ndarray | None:
        """The values of a map entry, [n, *shape]; those of records that do not fit mean nothing."""
        self._expect(_LIST)
        size = self._varint()
        end = size + self._at
        self._require(end <= self._ends)
        self._expect(entry.head)
        values = None
        if entry.feature is None:
            self._require(self._varint() + self._at == end)
        else:
            is_short = size.max(initial=0, where=self.fits) < _SHORT
            length = (self._short if is_short else self._any_length)(entry.feature, end)
            values = _VALUES[entry.feature.wire](self, length, entry.feature)
        self._at = end
        self._require(self.fits)
        return values

    def _short(self, feature: Feature, end: np.ndarray) -> np.ndarray:
        """The length of the values, int64 [n], if each length is one byte: a word then holds all lengths."""
        left = (end - self._at).astype(np.uint64)
        one, byte = np.uint64(0x01_00_01_00_01), _TAG[feature.wire] << 8 | _LIST[0] << 24
        # The lengths of the value, of its list and of the list's content are 1, 3 and 5 less than what is
        # left.
        expected = left * one + np.uint64((byte - 0x05_00_03_00_01) & _ALL)
        differs = (self._words[self._at] ^ expected) & np.uint64(0xFF_FF_FF_FF_FF)
        self._require((differs == 0) & (end - self._at >= 5))
        self._at = self._at + 5
        return end - self._at

    def _any_length(self, feature: Feature, end: np.ndarray) -> np.ndarray:
        self._require(self._varint() + self._at == end)
        self._expect(bytes([_TAG[feature.wire]]))
        self._require(self._varint() + self._at == end)
        self._expect(_LIST)
        length = self._varint()
        self._require(length + self._at == end)
        return length

    def floats(self, length: np.ndarray, feature: Feature) -> np.ndarray:
        count = _count(feature)
        self._require(length == 4 * count)
        shape = self._size - 4 * count + 1, count
        return np.ndarray(shape, "<f4", self._joined, strides=(1, 4))[self._at].reshape(-1, *feature.shape)

    def strings(self, length: np.ndarray, feature: Feature) -> np.ndarray:
        begins = self._at.tolist()
        ends = np.where(self.fits, self._at + length, 0).tolist()
        values = np.empty(len(begins), object)
        values[:] = [self._joined[begin:end] for begin, end in zip(begins, ends, strict=True)]
        return values

    def integers(self, length: np.ndarray, feature: Feature) -> np.ndarray:
        count = _count(feature)
        if count == 1 and length.max(initial=0, where=self.fits) <= _WORD:
            values, fits = _unpacked(self._words[self._at], length)
            self._require(fits)
            return values.reshape(-1, *feature.shape)
        self._require((length >= count) & (length <= _MOST_VARINT * count))
        values, kept = np.zeros((len(length), count), np.int64), np.flatnonzero(self.fits)
        numbers, is_right = _packed(self._data, self._at[kept], length[kept], count)
        values[kept[is_right]] = numbers
        fits = np.zeros_like(self.fits)
        fits[kept[is_right]] = True
        self._require(fits)
        return values.reshape(-1, *feature.shape)

    def _expect(self, expected: bytes) -> None:
        """Moves past these bytes, where they are as expected."""
        for at in range(0, len(expected), _WORD):
            part = expected[at : at + _WORD]
            if len(part) == 1:
                self._require(self._data[self._at + at] == part[0])
                continue
            differs = self._words[self._at + at] ^ np.uint64(int.from_bytes(part, "little"))
            self._require(differs & np.uint64((1 << 8 * len(part)) - 1) == 0)
        self._at = self._at + len(expected)

    def _varint(self) -> np.ndarray:
        """Reads a length, int64 [n]."""
        first = self._data[self._at]
        value, self._at = first.astype(np.int64), self._at + 1
        if first.max(initial=0) < _SHORT:
            return value
        value, more, shift = value & 0x7F, first >= _SHORT, 7
        while more.any() and shift < 63:
            following = self._data[self._at]
            value = np.where(more, value | (following.astype(np.int64) & 0x7F) << shift, value)
            self._at, more, shift = self._at + more, more & (following >= _SHORT), shift + 7
        self._require(~more)
        return value

    def _require(self, fits: np.ndarray) -> None:
        self.fits &= fits
        if not self.fits.all():
            self._at = np.where(self.fits, self._at, self._nowhere)


_VALUES = {"bytes": _Cursor.strings, "float": _Cursor.floats, "int64": _Cursor.integers}

_TOPS = 0x80_80_80_80_80_80_80_80  # in each byte, the bit which says that more bytes follow
# Neighbours of 7, 14 and 28 bits are joined: the lower ones stay, the upper ones move down by so many bits.
_JOINS = ((0x007F_007F_007F_007F, 1), (0x0000_3FFF_0000_3FFF, 2), (0x0000_0000_0FFF_FFFF, 4))


def _unpacked(words: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The varints of 1 to 8 bytes in the lowest bytes of words, int64 [n]; and which of them have that
    length.
    """
    bits = 8 * np.clip(length, 1, _WORD).astype(np.uint64)
    mask = np.uint64(_ALL) >> (np.uint64(8 * _WORD) - bits)
    fits = (length >= 1) & (words & mask & np.uint64(_TOPS) == mask >> np.uint64(8) & np.uint64(_TOPS))
    value = words & mask & np.uint64(_ALL ^ _TOPS)
    for low, down in _JOINS:
        value = value & np.uint64(low) | (value & np.uint64(_ALL ^ low)) >> np.uint64(down)
    return value.astype(np.int64), fits


def _packed(
    data: np.ndarray, begins: np.ndarray, lengths: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Reads `count` packed varints at each of n places, which take `lengths` bytes.

    Returns:
      The numbers, int64 [right, count], and which places have exactly `count` numbers, bool [n].
    """
    before = np.cumsum(lengths) - lengths
    places = np.repeat(begins - before, lengths) + np.arange(lengths.sum())
    digits = data[places]
    is_last = digits < 0x80
    ends = np.cumsum(np.concatenate([[0], is_last]))
    whole = lengths > 0
    found = ends[before + lengths] - ends[before]
    is_right = whole & (found == count) & is_last[before + lengths - 1]
    if not is_right.all():
        chosen = np.repeat(is_right, lengths)
        digits, is_last = digits[chosen], is_last[chosen]
    lasts = np.flatnonzero(is_last)
    firsts = np.concatenate([[0], lasts[:-1] + 1]) if len(lasts) else lasts
    sizes = lasts - firsts + 1
    if not len(lasts):
        return np.zeros((0, count), np.int64), is_right
    shift = (np.arange(len(digits)) - np.repeat(firsts, sizes)) * 7
    # Protobuf keeps only the lowest bit of a tenth byte.
    parts = (digits.astype(np.uint64) & np.uint64(0x7F)) << np.minimum(shift, 63).astype(np.uint64)
    numbers = np.add.reduceat(parts, firsts).view(np.int64)
    return numbers.reshape(-1, count), is_right


# --- One record by itself, as protobuf reads it.

_VARINT, _FIXED64, _DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_FIXED = {_FIXED64: 8, _FIXED32: 4}  # bytes
_MOST_TAG = 5  # bytes
_KIND = {1: "bytes", 2: "float", 3: "int64"}  # `Feature`'s fields


def _entries(record: bytes, wanted: Container[bytes]) -> Iterator[tuple[bytes, str | None, Sequence]]:
    """The name of each entry and, for wanted names, the type of the list and the values.

    Raises:
      ValueError: the record is not an Example.
    """
    for features in _submessages(record, 1):
        for entry in _submessages(features, 1):
            name, value = b"", b""
            for number, wire, content in _fields(entry):
                if wire == _DELIMITED and number == 1:
                    name = content
                elif wire == _DELIMITED and number == 2:
                    value += content  # parts of a message are merged
            name.decode()  # raises for other text, which protobuf refuses too
            # As when records are read in step.
            is_passed_by = name not in wanted and entry == _entry(name, value)
            yield name, *((None, ()) if is_passed_by else _values(value))


def _entry(name: bytes, value: bytes) -> bytes:
    """An entry as it is nearly always written."""
    return _Entry(name=name, feature=None).head + varint(len(value)) + value


def _values(feature: bytes) -> tuple[str | None, Sequence]:
    kind, values = None, []
    for number, wire, content in _fields(feature):
        if wire == _DELIMITED and number in _KIND:
            if _KIND[number] != kind:  # where a list repeats with another type, the last one counts
                kind, values = _KIND[number], []
            values += _LISTS[kind](content)
    return kind, values


def _strings(content: bytes) -> list[bytes]:
    return list(_submessages(content, 1))


def _floats(content: bytes) -> list[float]:
    found: list[float] = []
    for number, wire, part in _fields(content):
        if number == 1 and wire in (_DELIMITED, _FIXED32):
            if len(part) % 4:
                raise ValueError("it is no tf.train.Example: a list of floats is cut short")
            found += struct.unpack(f"<{len(part) // 4}f", part)
    return found


def _integers(content: bytes) -> list[int]:
    found: list[int] = []
    for number, wire, part in _fields(content):
        if number == 1 and wire == _VARINT:
            found.append(_signed(part))
        elif number == 1 and wire == _DELIMITED:
            at = 0
            while at < len(part):
                value, at = _varint(part, at)
                found.append(_signed(value))
    return found


_LISTS = {"bytes": _strings, "float": _floats, "int64": _integers}


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _submessages(message: bytes, wanted: int) -> Iterator[bytes]:
    return (content for number, wire, content in _fields(message) if number == wanted and wire == _DELIMITED)


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Number, wire type and content of each field, without groups; raises ValueError where there is
    damage.
    """
    at = 0
    while at < len(message):
        number, wire, at = _tag(message, at)
        if wire == _GROUP:
            at = _behind_group(message, number, at)
        else:
            content, at = _content(message, wire, at)
            yield number, wire, content


def _tag(message: bytes, at: int) -> tuple[int, int, int]:
    """A field's number and wire type, and where its content begins."""
    tag, end = _varint(message, at)
    if not 8 <= tag < 1 << 32 or end - at > _MOST_TAG:
        raise ValueError(f"it is no tf.train.Example: byte {at:,} begins no field")
    return tag >> 3, tag & 7, end


def _content(message: bytes, wire: int, at: int) -> tuple[bytes | int, int]:
    """What a field holds, and where it ends."""
    if wire == _VARINT:
        return _varint(message, at)
    if wire == _DELIMITED:
        length, at = _varint(message, at)
    elif wire in _FIXED:
        length = _FIXED[wire]
    else:
        raise ValueError(f"it is no tf.train.Example: byte {at:,} has wire type {wire}")
    if at + length > len(message):
        raise ValueError(f"it is no tf.train.Example: a field of {length:,} bytes passes its end")
    return message[at : at + length], at + length


def _behind_group(message: bytes, number: int, at: int) -> int:
    """Skips a group, and the groups in it; returns where it ends. An Example has no groups, and unknown ones
    are skipped.
    """
    inside = [number]
    while inside:
        number, wire, at = _tag(message, at)
        if wire == _GROUP:
            inside.append(number)
        elif wire != _GROUP_END:
            _, at = _content(message, wire, at)
        elif inside.pop() != number:
            raise ValueError(f"it is no tf.train.Example: another group ends at byte {at:,}")
    return at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("it is no tf.train.Example: a number has no end")
        digit = message[at]
        value |= (digit & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if digit < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at

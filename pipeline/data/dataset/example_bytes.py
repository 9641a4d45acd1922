"""The parts of a serialized `tf.train.Example` that precede values, written without protobuf.

Wire format: https://protobuf.dev/programming-guides/encoding/; messages: tensorflow/core/example/*.proto.
"""

# Tags: field number << 3 | 2, where 2 is "length-delimited".
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_LIST_TAG = {"bytes": _FIELD_1, "float": _FIELD_2, "int64": _FIELD_3}  # of `Feature`'s oneof


def example_head(length: int) -> bytes:
    """The bytes before map entries of `length` bytes in all: Example.features = 1."""
    return _FIELD_1 + _varint(length)


def entry_head(name: bytes, wire: str, length: int) -> bytes:
    """The bytes before a payload of `length` bytes in a map entry: Features.feature = 1 {key = 1, value = 2}.

    The payload is one bytes value, or packed numbers: field 1 of BytesList, FloatList and Int64List alike.
    """
    values = _FIELD_1 + _varint(length)
    kind = _LIST_TAG[wire] + _varint(len(values) + length) + values
    value = _FIELD_2 + _varint(len(kind) + length) + kind
    key = _FIELD_1 + _varint(len(name)) + name
    return _FIELD_1 + _varint(len(key) + len(value) + length) + key + value


def _varint(value: int) -> bytes:
    """A non-negative number, 7 bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

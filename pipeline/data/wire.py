"""Pieces of a serialized `tf.train.Example`, written by hand.

Wire format: https://protobuf.dev/programming-guides/encoding/; messages: tensorflow/core/example/*.proto.
"""

# Tags (field number << 3 | 2, "length-delimited"). Every length-delimited field here has number 1, 2 or 3.
FIELD_1, FIELD_2, FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_LIST_TAG = {"bytes": FIELD_1, "float": FIELD_2, "int64": FIELD_3}  # of `Feature`'s oneof


def example_head(length: int) -> bytes:
    """What precedes map entries of `length` bytes together: Example.features = 1."""
    return FIELD_1 + varint(length)


def entry_head(name: bytes, wire: str, length: int) -> bytes:
    """What precedes a payload of `length` bytes in a map entry: Features.feature = 1 {key = 1, value = 2}.

    The payload is one bytes value, or packed numbers: field 1 of BytesList, FloatList and Int64List alike.
    """
    values = FIELD_1 + varint(length)
    kind = _LIST_TAG[wire] + varint(len(values) + length) + values
    value = FIELD_2 + varint(len(kind) + length) + kind
    key = FIELD_1 + varint(len(name)) + name
    return FIELD_1 + varint(len(key) + len(value) + length) + key + value


def varint(value: int) -> bytes:
    """A number that is not negative, 7 bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

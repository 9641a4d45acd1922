"""The bytes around the rows of a block's Example: all but the count of rows follow from the schema alone.

Standard library only.
"""

import dataclasses
import functools
import itertools

from pipeline.data.dataset import blocks
from pipeline.data.dataset.example_bytes import entry_head, example_head
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.schema.schema import Schema

COUNT_BYTES = 2  # a varint padded to this size holds up to 2**14 - 1
_GROWTH_BYTES = 16  # most that an entry's head grows with its payload: four varints, from 1 byte to 5 each


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockFrame:
    """A serialized block is `head`, the `payload` bytes of the rows, and `tail`."""

    head: bytes  # holds the count, and ends with the rows' own head
    count_at: int  # offset of the count in the block
    payload: int  # bytes of rows
    tail: bytes

    @property
    def rows_at(self) -> int:
        """Offset of the rows in the block."""
        return len(self.head)

    @property
    def size(self) -> int:
        """Bytes of a serialized block."""
        return len(self.head) + self.payload + len(self.tail)


def of_schema(schema: Schema) -> BlockFrame:
    """The frame of the schema's blocks, padded so that blocks and rows start at multiples of a row."""
    return _frame(blocks.geometry(schema))


@functools.lru_cache
def _frame(geometry: blocks.Geometry) -> BlockFrame:
    count = entry_head(blocks.COUNT.encode(), "int64", COUNT_BYTES) + bytes(COUNT_BYTES)
    rows_head = entry_head(blocks.ROWS.encode(), "bytes", geometry.payload)
    tail = _padding(blocks.AFTER, FRAME_BYTES - HEADER_BYTES, geometry.width)
    # The Example's head holds its size, which depends on the padding: try each length of that head.
    for head_bytes in itertools.count(2):
        others = HEADER_BYTES + head_bytes + len(count) + len(rows_head)
        inner = _padding(blocks.BEFORE, others, geometry.width) + count + rows_head
        head = example_head(len(inner) + geometry.payload + len(tail))
        if len(head) == head_bytes:
            count_at = len(head) + len(inner) - len(rows_head) - COUNT_BYTES
            return BlockFrame(head=head + inner, count_at=count_at, payload=geometry.payload, tail=tail)
    raise AssertionError("unreachable")


def _padding(name: str, others: int, width: int) -> bytes:
    """A map entry of zeros whose bytes and `others` together are a multiple of `width`."""
    shortest = -(len(entry_head(name.encode(), "bytes", 0)) + others) % width
    for most in itertools.count(shortest, width):
        for zeros in range(max(0, most - _GROWTH_BYTES), most + 1):
            head = entry_head(name.encode(), "bytes", zeros)
            if (len(head) + zeros + others) % width == 0:
                return head + bytes(zeros)
    raise AssertionError("unreachable")

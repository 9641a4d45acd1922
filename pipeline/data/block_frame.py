"""Everything of a block's Example but its rows and their count: bytes that the schema alone tells.

Standard library only.
"""

import dataclasses
import functools
import itertools

from pipeline.data import blocks
from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES
from pipeline.data.schema import Schema
from pipeline.data.wire import entry_head, example_head

COUNT_BYTES = 2  # a varint that is filled up to this size holds up to 2**14 - 1
_GROWTH_BYTES = 16  # at most, of an entry's head with its payload: of four varints, each from 1 byte to 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockFrame:
    """A serialized block is `head`, the rows' `payload` bytes, and `tail`."""

    head: bytes  # holds the count, and ends in the rows' own head
    count_at: int
    payload: int
    tail: bytes

    @property
    def rows_at(self) -> int:
        """Byte at which the rows start."""
        return len(self.head)

    @property
    def size(self) -> int:
        """Bytes of a serialized block."""
        return len(self.head) + self.payload + len(self.tail)


def of_schema(schema: Schema) -> BlockFrame:
    """In a TFRecord file all blocks and their rows start at multiples of the width, so much is filled up."""
    return _frame(blocks.geometry(schema))


@functools.lru_cache
def _frame(geometry: blocks.Geometry) -> BlockFrame:
    count = entry_head(blocks.COUNT.encode(), "int64", COUNT_BYTES) + bytes(COUNT_BYTES)
    rows_head = entry_head(blocks.ROWS.encode(), "bytes", geometry.payload)
    tail = _filling(blocks.AFTER, FRAME_BYTES - HEADER_BYTES, geometry.width)
    # The Example's own head tells its size, which depends on the filling: try each length of that head.
    for head_bytes in itertools.count(2):
        others = HEADER_BYTES + head_bytes + len(count) + len(rows_head)
        inner = _filling(blocks.BEFORE, others, geometry.width) + count + rows_head
        head = example_head(len(inner) + geometry.payload + len(tail))
        if len(head) == head_bytes:
            count_at = len(head) + len(inner) - len(rows_head) - COUNT_BYTES
            return BlockFrame(head=head + inner, count_at=count_at, payload=geometry.payload, tail=tail)
    raise AssertionError("unreachable")


def _filling(name: str, others: int, width: int) -> bytes:
    """A map entry of zeros that, with `others` bytes, fills a multiple of `width`."""
    shortest = -(len(entry_head(name.encode(), "bytes", 0)) + others) % width
    for most in itertools.count(shortest, width):
        for zeros in range(max(0, most - _GROWTH_BYTES), most + 1):
            head = entry_head(name.encode(), "bytes", zeros)
            if (len(head) + zeros + others) % width == 0:
                return head + bytes(zeros)
    raise AssertionError("unreachable")

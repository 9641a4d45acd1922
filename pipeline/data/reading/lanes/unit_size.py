"""How much of each lane is read at once, and of how many lanes together."""

from typing import NamedTuple

from pipeline.data.reading.lanes.lanes import MOST_BYTES, Lanes
from pipeline.data.reading.lanes.window_parts import WindowParts

_MOST_GROUPS = 16
# That a unit holds, where it cannot hold whole ones alone. Records of single rows take more memory than rows
# of blocks, and are copied one by one: more than two leave the processor's cache.
_BATCHES_OF_BLOCKS = 8
_BATCHES_OF_RECORDS = 2


class UnitSize(NamedTuple):
    """How much of a lane a unit holds."""

    window_rows: int
    windows: int


def unit_size(parts: WindowParts, lanes: Lanes, *, is_of_blocks: bool) -> UnitSize:
    """As many rows together whatever the number of lanes here, and of each at least those of a batch."""
    in_window = parts.in_window(lanes.count)
    rows = in_window * parts.size
    windows = max(-(-lanes.size // rows), parts.in_windows // (in_window * lanes.here), 1)
    if windows * rows % lanes.size:
        # Rows of a batch that is not whole are kept for the next unit, which costs one more copy of them.
        batches = _BATCHES_OF_BLOCKS if is_of_blocks else _BATCHES_OF_RECORDS
        few_kept = -(-batches * lanes.size // rows)
        most = int(MOST_BYTES / (in_window * parts.bytes * lanes.here))
        windows = max(windows, min(few_kept, most))
    return UnitSize(window_rows=rows, windows=windows)


def lanes_of_group(lanes: int, *, parts: int, in_windows: int, is_of_blocks: bool) -> int:
    """How many lanes of a unit are read together: of strings all, of blocks about two windows.

    More of them leave the processor's cache, and each group costs calls of its own. Groups are of one size
    where that can be: only the usual number of blocks is read the cheapest way.

    Args:
      lanes: of this host.
      parts: of each lane in a unit.
      in_windows: see `WindowParts`.
    """
    most = min(lanes, _MOST_GROUPS)
    fewest = min(-(-parts * lanes // (2 * in_windows)), most) if is_of_blocks else 1
    even = [count for count in range(fewest, most + 1) if lanes % count == 0]
    return -(-lanes // (even[0] if even else fewest))

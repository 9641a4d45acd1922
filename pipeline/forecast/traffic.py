"""What a TPU's program reads from its memory (HBM) and writes to it.

XLA counts every operand, and calls the sum "bytes accessed". A part of these lies in the fast memory of the
chip: for a small model that was nearly all of it, so that the time of that traffic was five times too long.
Here only what lies in HBM counts, in the entry computation: an operation reads its operands, and writes its
results. An operation that takes a few rows of a table counts the whole table, unlike in XLA's count: the true
number is at most the smaller of the two, and what happens within loops counts in neither.
"""

import math
import re
from collections.abc import Iterator

_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (.*?) ([\w-]+)\((.*)$")
_ARRAY = re.compile(r"\b(pred|[subf]+\d+)\[([\d,]*)\](\{[^}]*\})?")
_NAME = re.compile(r"%([\w.-]+)")
_FAST = re.compile(r"S\([1-9]\d*\)")  # a memory space of a layout other than HBM's, which is 0
# What moves no bytes, or ends what another instruction began.
_NOTHING = re.compile(r"parameter|tuple|get-tuple-element|bitcast|constant|after-all|.*-done")
_COPIES = ("copy-start", "slice-start")  # give the destination, the source and a word of state


def entry_of(text: str) -> str:
    """The entry computation of an optimised program."""
    entry = text[text.index("ENTRY ") :]
    return entry[: entry.index("\n}")]


def hbm_bytes(text: str) -> float:
    """The bytes that the entry computation of an optimised program reads from HBM and writes to it."""
    shapes: dict[str, str] = {}
    total = 0.0
    for line in entry_of(text).splitlines():
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, shape, operation, rest = found.groups()
        shapes[name] = shape
        if _NOTHING.fullmatch(operation):
            continue
        if operation in _COPIES:
            total += _of_copy(shape)
            continue
        operands = (shapes.get(each, "") for each in _NAME.findall(_arguments(rest)))
        total += sum(size for each in (shape, *operands) for size, is_fast in _arrays(each) if not is_fast)
    return total


def _of_copy(shape: str) -> float:
    """Both ends of a copy: as many bytes as the smaller has, for a slice takes a part of its source."""
    ends = list(_arrays(shape))[:2]
    return min(size for size, _ in ends) * sum(not is_fast for _, is_fast in ends)


def _arrays(shape: str) -> Iterator[tuple[float, bool]]:
    """The bytes of each array of a shape, and whether it lies in the chip's fast memory."""
    for dtype, sizes, layout in _ARRAY.findall(shape):
        bits = 8 if dtype == "pred" else int(re.sub(r"\D", "", dtype))
        yield math.prod(int(each) for each in sizes.split(",") if each) * bits / 8, bool(_FAST.search(layout))


def _arguments(rest: str) -> str:
    """What stands before the parenthesis that closes an instruction's arguments."""
    depth = 1
    for place, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if not depth:
            return rest[:place]
    return rest

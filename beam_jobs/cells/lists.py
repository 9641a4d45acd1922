"""Lists of a fixed number of numbers: tensors and tokens, from lists of any depth or from text."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text
from beam_jobs.cells.text import Problems, clean_text, decode, number
from pipeline.data.schema.feature_types import Tensor, Tokens

_SEPARATORS = r"[\s,;]+"  # between the numbers of a tensor in text


def fixed_list(
    feature: Tokens | Tensor,
    cells: pa.Array,
    problems: Problems,
    *,
    check: Callable[[pa.Array, Problems], None] | None = None,
) -> pa.FixedSizeListArray:
    """Returns int64 or float64 [rows, product of the shape], zeros where a row is of another length.

    `check` adds the problems of all numbers [rows * product of the shape] by their position.
    """
    size = int(np.prod(feature.shape))
    items = _items(feature, cells, problems)
    lengths = pc.list_value_length(items)
    problems.add(items.is_null(), "missing")
    problems.add(pc.not_equal(lengths, size), f"not {size} numbers")
    # A list of fixed size needs all its numbers, so rows of another length hold zeros until they are left
    # out.
    right = pc.equal(lengths, size).fill_null(False)
    zero = "0" if pa.types.is_string(items.type.value_type) else 0
    zeros = pa.array([[zero] * size], pa.list_(pa.int64() if zero == 0 else pa.string())).cast(items.type)
    items = pa.concat_arrays([items, zeros]).take(
        pc.if_else(right, pa.array(np.arange(len(cells))), pa.scalar(len(cells)))
    )
    item_problems = Problems()
    numbers = number(feature, text.plain(items.flatten()), item_problems)
    item_problems.add(numbers.is_null(), "a number is missing")
    if check:
        check(numbers, item_problems)
    for item, reason in item_problems.items():
        problems.add([item // size], reason)
    return pa.FixedSizeListArray.from_arrays(numbers, size)


def single(cells: pa.Array, problems: Problems) -> pa.Array:
    """Returns the one value of each list [rows]; null where it is empty, a problem where it has several."""
    if not text.is_list(cells.type):
        return cells
    lists = cells.cast(pa.list_(cells.type.value_type))
    lengths = pc.list_value_length(lists)
    problems.add(pc.greater(lengths, 1), "several values in place of one")
    one = pc.equal(lengths, 1).fill_null(False)
    first = pc.cumulative_sum(pc.fill_null(lengths, 0)).cast(pa.int64())
    where = pc.if_else(one, pc.subtract(first, 1), pa.scalar(None, pa.int64()))
    return text.plain(lists.flatten().take(where))


def flat(cells: pa.Array) -> pa.ListArray:
    """Lists of lists [rows] as one flat list a row, in C order."""
    while text.is_list(cells.type.value_type):
        cells = _without_one_level(cells)
    return cells.cast(pa.list_(cells.type.value_type))


def _items(feature: Tokens | Tensor, cells: pa.Array, problems: Problems) -> pa.ListArray:
    """One flat list a row, in C order: numbers, or their text."""
    cells = flat(cells) if text.is_list(cells.type) else cells
    if text.is_list(cells.type) and text.is_number(cells.type.value_type):
        return cells
    joined = clean_text(decode(cells, problems), feature.clean)
    return pc.split_pattern_regex(joined, _SEPARATORS)


def _without_one_level(cells: pa.Array) -> pa.Array:
    """Flattens [rows, a, b] to [rows, a·b]."""
    outer = cells.cast(pa.list_(cells.type.value_type))
    inner = outer.flatten()
    inner = inner.cast(pa.list_(inner.type.value_type))
    ends = np.cumsum([0, *pc.list_value_length(inner).fill_null(0).to_pylist()])
    rows = np.cumsum([0, *pc.list_value_length(outer).fill_null(0).to_pylist()])
    flat = pa.ListArray.from_arrays(pa.array(ends[rows], pa.int32()), inner.flatten())
    return pc.if_else(cells.is_valid(), flat, pa.scalar(None, flat.type))

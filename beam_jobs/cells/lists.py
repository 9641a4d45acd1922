"""Reads cells that hold a list: a fixed number of numbers (tensors, tokens), or any number of names.

The list is a list of the raw format, or a text with a delimiter.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text
from beam_jobs.cells.text import MISSING, TRUNCATED, Problems, clean_text, decode, number
from pipeline.data.schema.feature_types import Categories, Label, Tensor, Tokens

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
    _check_nesting(feature, cells, problems)
    items = _items(feature, cells, problems)
    lengths = pc.list_value_length(items)
    problems.add(items.is_null(), MISSING)
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Names:
    """The names in the lists of a column.

    Attributes:
      rows: the row of each name, ascending, int64 [names].
      values: cleaned text [names]; null where a list lacks a value.
      are_lists: bool [rows], False where a row has no list.
    """

    rows: np.ndarray
    values: pa.StringArray
    are_lists: pa.BooleanArray


def names(feature: Label | Categories, cells: pa.Array, problems: Problems) -> Names:
    """The names in `cells` [rows]: in lists of any depth, or in text between delimiters.

    Text that is empty between delimiters is no name, and where there is a delimiter an empty cell is a list
    of none. Without a delimiter text is one name.
    """
    of_lists, rows = text.is_list(cells.type), np.arange(len(cells))
    are_lists = cells.is_valid()
    if of_lists:
        cells = flat(cells)
        rows = np.repeat(rows, pc.list_value_length(cells).fill_null(0).to_numpy())
        cells = cells.flatten()
    wrong = Problems()
    found = decode(text.plain(cells), wrong)
    for item, reason in wrong.items():
        problems.add([int(rows[item])], reason)
    if not of_lists:
        are_lists = clean_text(found, feature.clean).is_valid()
        if feature.delimiter:
            are_lists = pc.or_(are_lists, _is_empty(feature, found))
        rows, found = _those(are_lists, rows, found)
    if feature.delimiter:
        parted = pc.split_pattern(found, feature.delimiter)
        rows = np.repeat(rows, pc.list_value_length(parted).fill_null(1).to_numpy())
        parted = pc.if_else(parted.is_valid(), parted, pa.scalar([None], parted.type))
        rows, found = _those(pc.invert(_is_empty(feature, parted.flatten())), rows, parted.flatten())
    return Names(rows=rows, values=clean_text(found, feature.clean), are_lists=are_lists)


def _is_empty(feature: Label | Categories, found: pa.StringArray) -> pa.BooleanArray:
    trimmed = pc.utf8_trim(found, characters=feature.clean.strip) if feature.clean.strip else found
    return pc.equal(trimmed, "").fill_null(False)


def _those(
    kept: pa.BooleanArray, rows: np.ndarray, values: pa.StringArray
) -> tuple[np.ndarray, pa.StringArray]:
    return rows[kept.to_numpy(zero_copy_only=False)], values.filter(kept)


def multi_hot(feature: Label, cells: pa.Array, problems: Problems) -> pa.FixedSizeListArray:
    """Returns int64 [rows, classes]: 1 for each class in a row's list, however often it stands there."""
    found, size = names(feature, cells, problems), len(feature.classes)
    problems.add(pc.invert(found.are_lists), MISSING)
    index = pc.index_in(found.values, value_set=pa.array(feature.classes, pa.string()), skip_nulls=True)
    is_there, is_class = (each.is_valid().to_numpy(zero_copy_only=False) for each in (found.values, index))
    problems.add(np.unique(found.rows[~is_there]).tolist(), "a name in its list is missing")
    problems.add(np.unique(found.rows[is_there & ~is_class]).tolist(), "not one of the classes")
    hot = np.zeros((len(cells), size), np.int64)
    hot[found.rows[is_class], index.drop_null().to_numpy()] = 1
    return pa.FixedSizeListArray.from_arrays(pa.array(hot.ravel()), size)


def categories(feature: Categories, cells: pa.Array, problems: Problems) -> pa.FixedSizeListArray:
    """Returns string [rows, length], filled up with empty ones; null where a row has no list."""
    found, length = names(feature, cells, problems), feature.length
    if feature.missing == "reject":
        problems.add(pc.invert(found.are_lists), MISSING)
    rows, values = _those(found.values.is_valid(), found.rows, found.values)
    if feature.unknown == "reject":
        known = pc.is_in(values, value_set=pa.array(feature.vocabulary, pa.string()))
        problems.add(np.unique(rows[~known.to_numpy(zero_copy_only=False)]).tolist(), "not in the vocabulary")
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)  # in its list
    fits = place < length
    problems.note(TRUNCATED, np.unique(rows[~fits]).tolist())
    at = np.full(len(cells) * length, len(values))  # where the empty one stands
    at[rows[fits] * length + place[fits]] = np.flatnonzero(fits)
    filled = pa.concat_arrays([values, pa.array([""], pa.string())]).take(pa.array(at))
    return pa.FixedSizeListArray.from_arrays(filled, length, mask=pc.invert(found.are_lists))


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


def _check_nesting(feature: Tokens | Tensor, cells: pa.Array, problems: Problems) -> None:
    """Refuses lists that are nested as deep as the shape, and have another one: [3, 2] for [2, 3]."""
    depth, inside = 0, cells.type
    while text.is_list(inside):
        depth, inside = depth + 1, inside.value_type
    if depth != len(feature.shape) or depth == 1:
        return
    rows = np.arange(len(cells))
    for size in feature.shape:
        lengths = pc.list_value_length(cells)
        wrong = pc.not_equal(lengths, size).fill_null(False).to_numpy(zero_copy_only=False)
        problems.add(np.unique(rows[wrong]).tolist(), f"not of the shape {list(feature.shape)}")
        rows, cells = np.repeat(rows, lengths.fill_null(0).to_numpy()), cells.flatten()


def _without_one_level(cells: pa.Array) -> pa.Array:
    """Flattens [rows, a, b] to [rows, a·b]."""
    outer = cells.cast(pa.list_(cells.type.value_type))
    inner = outer.flatten()
    inner = inner.cast(pa.list_(inner.type.value_type))
    ends = np.cumsum([0, *pc.list_value_length(inner).fill_null(0).to_pylist()])
    rows = np.cumsum([0, *pc.list_value_length(outer).fill_null(0).to_pylist()])
    flat = pa.ListArray.from_arrays(pa.array(ends[rows], pa.int32()), inner.flatten())
    return pc.if_else(cells.is_valid(), flat, pa.scalar(None, flat.type))

"""The text of a cell of any type. It identifies rows, names categories, and is cleaned up.

Equal values have equal text whatever format they came from: 7, 7.0 and "7" are all `7`. Floats are written
in their shortest form that reads back as the same number; NaN is no value.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BETWEEN_ITEMS = b" "


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are text already, decoded or not."""
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return is_string or is_bytes(kind)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether cells of this type are bytes, which may be text that is not decoded."""
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether cells of this type are lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers; booleans are 0 and 1."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    )


def plain(cells: pa.Array) -> pa.Array:
    """The same cells [rows] without a dictionary, NaN as null."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_floating(cells.type):
        # Arrow compares no float16.
        cells = cells.cast(pa.float32()) if pa.types.is_float16(cells.type) else cells
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
    return cells


def to_bytes(cells: pa.Array) -> pa.Array:
    """Text of `cells` [rows] as binary, null where they are null. Text of bytes need not be UTF-8."""
    cells = plain(cells)
    kind = cells.type
    if is_text(kind):
        return cells.cast(pa.binary())
    if is_number(kind) or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        return cells.cast(pa.string()).cast(pa.binary())
    if is_list(kind) and _is_joinable(kind.value_type):
        return _joined(cells)
    # Lists of lists, lists of structs and maps are rare enough to convert one by one.
    return pa.array([_dumped(value) for value in cells.to_pylist()], pa.binary())


def _is_joinable(item: pa.DataType) -> bool:
    # Empty lists have items of type null, unless others are beside them.
    return is_number(item) or is_text(item) or pa.types.is_null(item)


def _joined(cells: pa.Array) -> pa.Array:
    lists = cells.cast(pa.large_list(cells.type.value_type))
    items = to_bytes(lists.flatten()).fill_null(b"null")
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, items), _BETWEEN_ITEMS)
    return pc.if_else(cells.is_valid(), joined, pa.scalar(None, joined.type))


def _dumped(value: object) -> bytes | None:
    if value is None:
        return None
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()

"""The rows of records, and what is wrong with them, by the layout that the manifest names."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from beam_jobs.sources.bytes.example_proto import NoExampleError, features_of
from beam_jobs.verification import record_conformance
from pipeline.data.dataset import blocks
from pipeline.data.dataset.blocks import Field
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """What verification asks of records."""

    problems: Callable[[Sequence[bytes], Schema], dict[int, str]]  # what is wrong, by the record's position
    rows: Callable[[bytes, Schema], list[bytes]]  # the content of each row of a record
    row_id: Callable[[bytes, Schema, Sequence[str]], bytes]  # the values of the named features of a row


def _example_id(row: bytes, schema: Schema, names: Sequence[str]) -> bytes:
    del schema
    try:
        features = features_of(row)
        return b"\x1f".join(features[name].SerializeToString() for name in names)
    except (NoExampleError, KeyError):
        return row  # `problems` names it


def _block_rows(record: bytes, schema: Schema) -> list[bytes]:
    try:
        rows = _read_block(record, schema)
    except NoExampleError:
        return []
    content, width = rows.tobytes(), rows.itemsize
    return [content[start : start + width] for start in range(0, len(content), width)]


def _block_row_id(row: bytes, schema: Schema, names: Sequence[str]) -> bytes:
    [values] = np.frombuffer(row, blocks.row_dtype(schema))
    return b"\x1f".join(values[name].tobytes() for name in names)


def _block_problems(records: Sequence[bytes], schema: Schema) -> dict[int, str]:
    found: dict[int, str] = {}
    checks = [(feature.name, _check_of(feature)) for feature in schema.features]
    for position, record in enumerate(records):
        try:
            rows = _read_block(record, schema)
        except NoExampleError as error:
            found[position] = str(error)
            continue
        for name, check in checks:
            wrong, problem = check(rows[name].reshape(len(rows), -1))
            if wrong.any():
                found[position] = f"row {np.argmax(wrong):,} of the block: feature '{name}' {problem}"
                break
    return found


def _read_block(record: bytes, schema: Schema) -> np.ndarray:
    """Rows of the data, `blocks.row_dtype` [count]; raises NoExampleError if the record is no block."""
    features = features_of(record)
    if not {blocks.ROWS, blocks.COUNT} <= features.keys():
        raise NoExampleError("not a block: no rows, or no count of them")
    rows, count = features[blocks.ROWS].bytes_list.value, features[blocks.COUNT].int64_list.value
    geometry = blocks.geometry(schema)
    if [len(values) for values in rows] != [geometry.payload] or len(count) != 1:
        raise NoExampleError(f"not a block of {geometry.rows:,} rows of {geometry.width:,} bytes")
    if not 1 <= count[0] <= geometry.rows:
        raise NoExampleError(f"a count of {count[0]:,} in a block of {geometry.rows:,} rows")
    return np.frombuffer(rows[0], blocks.row_dtype(schema))[: count[0]]


def _check_of(feature: Feature) -> Callable[[np.ndarray], tuple[np.ndarray, str]]:
    """Numbers [rows, size] → those rows that the schema does not allow, bool [rows], and what is wrong."""
    field = blocks.field(feature)
    if field.vocabulary:
        return functools.partial(_outside_vocabulary, feature, field)
    return functools.partial(record_conformance.outside, feature, record_conformance.allowed(feature))


def _outside_vocabulary(feature: Feature, field: Field, numbers: np.ndarray) -> tuple[np.ndarray, str]:
    inside = (numbers >= 0) & (numbers < len(field.vocabulary))
    inside |= (numbers == blocks.UNKNOWN) & field.may_be_unknown
    inside |= (numbers == blocks.MISSING) & (feature.missing == "mark")
    return ~inside.all(axis=1), "is no index into the vocabulary"


LAYOUTS: Mapping[str, Layout] = {
    "rows": Layout(
        problems=record_conformance.problems, rows=lambda record, schema: [record], row_id=_example_id
    ),
    "blocks": Layout(problems=_block_problems, rows=_block_rows, row_id=_block_row_id),
}

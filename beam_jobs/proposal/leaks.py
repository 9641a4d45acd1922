"""Features that give the label away, found in the first rows: what is known only after the label is."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text, typed
from beam_jobs.proposal.useless import leaving_out
from beam_jobs.sources.pieces.source import Piece, Source
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Image, Text
from pipeline.data.schema.schema import Schema

_ROWS, _CELLS = 10_000, 5_000_000  # looked at, at most
_FEWEST = 50  # rows with a label; of fewer nothing can be said
_BINS, _IN_BIN = 256, 20  # bins of numbers, at most, and rows in each, at least
_GROUP = 5  # rows of one value, at least, that count
_TOLD = 0.99  # share of the rows whose class one column tells
_SAME = 0.9999  # correlation from which a number is the label in another unit


def leak_remarks(source: Source, pieces: Sequence[Piece], schema: Schema) -> list[str]:
    """A remark for each feature that alone tells the label of nearly all rows."""
    columns = _read(source, pieces, schema)
    labels = columns.pop(schema.label.name, pa.array([], pa.null()))
    known = labels.is_valid()
    y = labels.filter(known).to_numpy(zero_copy_only=False)
    if len(y) < _FEWEST:
        return []
    told = _of_classes if schema.label.classes else _of_numbers
    values = {name: column.filter(known) for name, column in columns.items() if len(column) == len(labels)}
    return list(told(values, y, schema))


def _of_classes(columns: Mapping[str, pa.Array], y: np.ndarray, schema: Schema) -> Iterator[str]:
    base = np.bincount(y).max() / len(y)
    for name, column in columns.items():
        share = _share_told(_groups(column), y, base)
        if share >= _TOLD and share - base >= (1 - base) / 2:
            name = schema[name].source_column
            yield (
                f"'{name}' alone tells the class of {share:.1%} of {len(y):,} rows (guessing: {base:.1%}). "
                f"If it is known only after '{schema.label.source_column}', leave it out: "
                f"{leaving_out(name)}."
            )


def _of_numbers(columns: Mapping[str, pa.Array], y: np.ndarray, schema: Schema) -> Iterator[str]:
    for name, column in columns.items():
        if not text.is_number(column.type) or column.null_count > len(column) / 2 or np.ptp(y) == 0:
            continue
        there = column.is_valid().to_numpy(zero_copy_only=False)
        x = column.drop_null().to_numpy().astype(np.float64)
        correlation = np.corrcoef(x, y[there])[0, 1] if np.ptp(x) > 0 and np.ptp(y[there]) > 0 else 0.0
        if abs(correlation) >= _SAME:
            name = schema[name].source_column
            yield (
                f"'{name}' is '{schema.label.source_column}' in other words: the correlation is "
                f"{correlation:.5f} in {len(x):,} rows. Leave it out: {leaving_out(name)}."
            )


def _share_told(groups: np.ndarray, y: np.ndarray, base: float) -> float:
    """The share of rows whose class is that of most rows of their group; rows of small groups are guessed."""
    classes = int(y.max()) + 1
    counts = np.bincount(groups * classes + y, minlength=(groups.max() + 1) * classes).reshape(-1, classes)
    rows = counts.sum(axis=1)
    return float(np.where(rows >= _GROUP, counts.max(axis=1), rows * base).sum() / len(y))


def _groups(column: pa.Array) -> np.ndarray:
    """The group of each row, int64 [rows]: one for each value, or for each bin of very many numbers."""
    codes = column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    bins = min(_BINS, len(column) // _IN_BIN)
    if codes.max(initial=0) <= bins or not text.is_number(column.type):
        return codes
    numbers = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    edges = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
    return np.searchsorted(edges, numbers, side="right").astype(np.int64)


def _read(source: Source, pieces: Sequence[Piece], schema: Schema) -> dict[str, pa.Array]:
    """Typed values of the first rows by the feature's name, those that do not conform as null."""
    features = [f for f in schema.features if not f.shape and not isinstance(f, Image | Text)]
    limit = min(_ROWS, _CELLS // len(schema.features)) // len(pieces) + 1
    found: dict[str, list[pa.Array]] = {feature.name: [] for feature in features}
    for piece in pieces[:_ROWS]:
        left = limit
        for raw in source.read(piece):
            names = set(raw.columns.schema.names)  # once: pyarrow makes the list anew each time
            for feature in features:
                if feature.source_column in names:
                    cells = raw.columns.column(feature.source_column)[:left]
                    found[feature.name].append(_values(feature, cells, raw.undecoded))
            left -= raw.columns.num_rows
            if left <= 0:
                break
    return {name: pa.concat_arrays(parts) for name, parts in found.items() if parts}


def _values(feature: Feature, cells: pa.Array, undecoded: bool) -> pa.Array:
    column = typed.parse(feature, cells, undecoded=undecoded)
    good = np.ones(len(cells), bool)
    good[list(column.problems)] = False
    return pc.if_else(pa.array(good), column.values, pa.scalar(None, column.values.type))

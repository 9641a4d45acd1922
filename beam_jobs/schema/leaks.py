"""Features that give the label away, found in the first rows: each tells the label of nearly all rows."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text, typed
from beam_jobs.schema.features import leaving_out
from beam_jobs.sources.source import InputSplit, Source
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categories, Image, Label, Text
from pipeline.data.schema.schema import Schema

_ROWS, _CELLS = 10_000, 5_000_000  # rows and cells that are looked at, at most
_FEWEST = 50  # rows with a label; fewer say nothing
_BINS, _IN_BIN = 256, 20  # bins of numbers, at most, and rows in each, at least
_GROUP = 5  # rows with one value, at least; smaller groups do not count
_PREDICTED = 0.99  # share of the rows whose class one column tells
_RANKED = 0.95  # ROC AUC of one column alone; few real features have more
_NAMED = 3  # columns that are named, at most
_SAME = 0.9999  # correlation from which a number is the label in another unit


def leak_remarks(source: Source, input_splits: Sequence[InputSplit], schema: Schema) -> list[str]:
    """A remark for each feature that alone tells the label of nearly all rows."""
    columns = _read(source, input_splits, schema)
    single = [(each, columns.pop(each.name, pa.array([], pa.null()))) for each in schema.of_type(Label)]
    lists = {name: columns.pop(name) for name in [*columns] if isinstance(schema[name], Categories)}
    return [
        *(remark for label, cells in single for remark in _of_label(label, cells, columns, schema)),
        *(remark for label, cells in single for remark in _of_histories(label, cells, lists, schema)),
    ]


def _of_histories(
    label: Label, labels: pa.Array, lists: Mapping[str, pa.Array], schema: Schema
) -> Iterator[str]:
    """Yields which lists of items hold the chosen one itself."""
    for name, column in lists.items():
        if len(column) != len(labels):
            continue
        chosen = pa.array(label.classes, pa.string()).take(labels).to_numpy(zero_copy_only=False)[:, None]
        # A row without a list has no item.
        length = schema[name].length
        items = np.array([each or [""] * length for each in column.to_pylist()], object).reshape(-1, length)
        filled = (items != "").any(axis=1) & labels.is_valid().to_numpy(zero_copy_only=False)
        share = (items == chosen).any(axis=1)[filled].mean() if filled.sum() >= _FEWEST else 0.0
        if share >= _PREDICTED:
            column_name = schema[name].source_column
            yield (
                f"'{column_name}' holds the chosen '{label.source_column}' itself in {share:.1%} of "
                f"{filled.sum():,} rows that have a list: a model would only copy it. End these lists "
                f"before the choice, or leave them out: {leaving_out(column_name)}."
            )


def _of_label(
    label: Label, labels: pa.Array, columns: Mapping[str, pa.Array], schema: Schema
) -> Iterator[str]:
    known = labels.is_valid()
    y = labels.filter(known).to_numpy(zero_copy_only=False)
    if len(y) < _FEWEST:
        return
    values = {name: column.filter(known) for name, column in columns.items() if len(column) == len(labels)}
    yield from (_of_classes if label.classes else _of_numbers)(values, y, label, schema)


def _of_classes(
    columns: Mapping[str, pa.Array], y: np.ndarray, label: Label, schema: Schema
) -> Iterator[str]:
    base = np.bincount(y).max() / len(y)
    aucs: dict[str, float] = {}
    for name, column in columns.items():
        groups = _groups(column)
        share = _share_predicted(groups, y, base)
        aucs[schema[name].source_column] = _ranking(column, groups, y) if len(label.classes) == 2 else 0.5
        if share >= _PREDICTED and share - base >= (1 - base) / 2:
            name = schema[name].source_column
            yield (
                f"'{name}' alone tells the class of {share:.1%} of {len(y):,} rows (guessing: {base:.1%}). "
                f"If it is known only after '{label.source_column}', leave it out: "
                f"{leaving_out(name)}."
            )
            del aucs[name]
    high = sorted((name for name in aucs if aucs[name] >= _RANKED), key=lambda name: -aucs[name])
    if high:
        listed = ", ".join(f"'{name}' ({aucs[name]:.3f})" for name in high[:_NAMED])
        flags = " ".join(leaving_out(name) for name in high[:_NAMED])
        yield (
            f"One column alone nearly tells '{label.source_column}', by its ROC AUC: {listed}. If it is "
            f"known only after '{label.source_column}', leave it out: {flags}."
        )


def _of_numbers(
    columns: Mapping[str, pa.Array], y: np.ndarray, label: Label, schema: Schema
) -> Iterator[str]:
    for name, column in columns.items():
        if not text.is_number(column.type) or column.null_count > len(column) / 2 or np.ptp(y) == 0:
            continue
        there = column.is_valid().to_numpy(zero_copy_only=False)
        x = column.drop_null().to_numpy().astype(np.float64)
        correlation = np.corrcoef(x, y[there])[0, 1] if np.ptp(x) > 0 and np.ptp(y[there]) > 0 else 0.0
        if abs(correlation) >= _SAME:
            name = schema[name].source_column
            yield (
                f"'{name}' is '{label.source_column}' in other words: the correlation is "
                f"{correlation:.5f} in {len(x):,} rows. Leave it out: {leaving_out(name)}."
            )


def _share_predicted(groups: np.ndarray, y: np.ndarray, base: float) -> float:
    """The share of rows that have the most frequent class of their group; in small groups, `base` is taken
    for it.
    """
    classes = int(y.max()) + 1
    # Counted by the pairs that occur: of users and items there would be very many.
    pairs, counts = np.unique(groups * classes + y, return_counts=True)
    rows = np.bincount(groups)
    most = np.zeros_like(rows)
    np.maximum.at(most, pairs // classes, counts)
    return float(np.where(rows >= _GROUP, most, rows * base).sum() / len(y))


def _ranking(column: pa.Array, groups: np.ndarray, y: np.ndarray) -> float:
    """The best ROC AUC of one column for the class, 0 or 1: by its numbers, ascending or descending, or by
    the rates of its groups. Every other row gives the rates, and the rest are scored.
    """
    rest, scored = slice(0, None, 2), slice(1, None, 2)
    ones, rows = (np.bincount(groups[rest], weights, groups.max() + 1) for weights in (y[rest], None))
    by_rate = _auc(((ones + y[rest].mean()) / (rows + 1))[groups[scored]], y[scored])
    if not text.is_number(column.type):
        return by_rate
    numbers = column.cast(pa.float64(), safe=False)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    by_number = _auc(numbers.drop_null().to_numpy(), y[there]) if 2 * there.sum() > len(y) else 0.5
    return max(by_rate, by_number, 1 - by_number)


def _auc(scores: np.ndarray, y: np.ndarray) -> float:
    """The share of pairs of both classes in which class 1 scores higher, ties as half; 0.5 without pairs."""
    _, order = np.unique(scores, return_inverse=True)
    size = order.max(initial=0) + 1
    negatives, positives = (np.bincount(order[y == each], minlength=size) for each in (0, 1))
    pairs = negatives.sum() * positives.sum()
    return float(((negatives.cumsum() - negatives / 2) * positives).sum() / pairs) if pairs else 0.5


def _groups(column: pa.Array) -> np.ndarray:
    """The group of each row, int64 [rows]: one for each value, or for each bin of very many numbers."""
    codes = column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64) + 1
    bins = min(_BINS, len(column) // _IN_BIN)
    if codes.max(initial=0) <= bins or not text.is_number(column.type):
        return codes
    numbers = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    edges = np.unique(np.nanquantile(numbers, np.arange(1, bins) / bins))
    return np.searchsorted(edges, numbers, side="right").astype(np.int64)


def _read(source: Source, input_splits: Sequence[InputSplit], schema: Schema) -> dict[str, pa.Array]:
    """Typed values of the first rows by the feature's name, those that do not conform as null."""
    has_items = any(label.is_retrieval for label in schema.of_type(Label))
    features = [
        f
        for f in schema.of_rows.features
        if (not f.shape and not isinstance(f, Image | Text)) or (has_items and isinstance(f, Categories))
    ]
    limit = min(_ROWS, _CELLS // len(schema.features)) // len(input_splits) + 1
    found: dict[str, list[pa.Array]] = {feature.name: [] for feature in features}
    for input_split in input_splits[:_ROWS]:
        left = limit
        for raw in source.read(input_split):
            names = set(raw.columns.schema.names)  # read once: pyarrow makes the list anew each time
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

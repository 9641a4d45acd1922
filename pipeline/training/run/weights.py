"""Refuses a column of weights with values that are not weights, and names the first such record."""

import math
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection
from pipeline.data.input.training import Targets
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.statistics import loading
from pipeline.training.experiment import example_weights
from pipeline.training.replay.stream import origins_of, place, raw_row_note, records_of


def require_weights(
    selections: Iterable[Selection], weights: Numeric | None, *, flag: str = example_weights.FLAG
) -> None:
    """Raises InputError if a weight in the selected data is negative, infinite or not a number.

    The data are read only if the statistics say that there may be such a weight.
    """
    for selection in selections if weights else ():
        found = _first_other(selection, weights) if _may_hold_others(selection, weights) else None
        if found:
            raise _error(flag, selection, weights, *found)


def _may_hold_others(selection: Selection, weights: Numeric) -> bool:
    measured = loading.load(selection.dataset)
    used = set(selection.shards.names)
    splits = selection.dataset.manifest.splits.items()
    return any(
        example_weights.may_hold_others(weights, measured[split].features.get(weights.name))
        for split, shards in splits
        if used & {shard.path for shard in shards}
    )


def _first_other(selection: Selection, weights: Numeric) -> tuple[int, float] | None:
    """The number, over all shards, of the first selected row whose weight is not valid, and the value that it
    holds.
    """
    targets, schema = Targets(weights=weights), selection.dataset.schema

    @tf.function(autograph=False)
    def weights_of(rows: tf.Tensor) -> tf.Tensor:
        return targets(*parsing.parse_rows(rows, schema))[1]

    for positions, rows in windows.stored_rows(selection):
        found = weights_of(rows).numpy()
        for at, weight in enumerate(found.tolist()):
            if not 0 <= weight < math.inf:  # false for NaN too
                return _number(selection, int(positions[at])), weight
    return None


def _number(selection: Selection, position: int) -> int:
    """Returns the number, over all shards, of the row at a position of the stored order, from 0."""
    for first, last in selection.ranges:
        if position < last - first:
            return first + position
        position -= last - first
    raise IndexError(f"position {position} beyond the rows of '{selection.expression}'")


def _error(flag: str, selection: Selection, weights: Numeric, number: int, weight: float) -> InputError:
    (record,) = records_of(selection, np.array([0]), np.array([[0, number]]))
    (raw,) = origins_of(selection, [record])
    return InputError(
        f"{flag}='{weights.name}'",
        received=f"{weight:g} in {place(record)} of {record.dataset}{raw_row_note(raw)}",
        expected="a finite number from 0 on for each example",
        action="Correct the data and convert again, or choose another column.",
    )

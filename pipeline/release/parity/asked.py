"""What clients would ask of rows: their cells as they stand in the raw files, where these can be read."""

import math
from collections.abc import Sequence

import numpy as np

from pipeline.data.preprocessing.kinds import OF_KIND
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema
from pipeline.release.parity.raw_cells import Cells
from pipeline.release.parity.sample import Sample
from pipeline.release.raw_inputs import raw_inputs
from pipeline.release.raw_names import raw_names

_INT64 = range(-(1 << 63), 1 << 63)


def asked(sample: Sample, cells: Sequence[Cells | None], schema: Schema) -> dict[str, np.ndarray]:
    """The arguments of `raw`, by name, [n, …] each.

    A value is that of the row's cell: text as it stands, which serving cleans; a number as a client reads it,
    an empty one NaN. Where there is no such cell, it is what the record holds, spelled as raw data spell it.
    """
    stored = {name: tensor.numpy() for name, tensor in raw_inputs(sample.features(), schema).items()}
    names = raw_names(schema)
    for feature in schema.inputs:
        values = stored[names[feature.name]] = stored[names[feature.name]].copy()
        for row, found in enumerate(cells):
            value = _value(feature, found.get(feature.source_column)) if found else None
            if value is not None:
                values[row] = value
    return stored


def _value(feature: Feature, cell: str | None) -> bytes | float | int | None:
    """What a client sends of a cell; None where that is no text and no single number."""
    if cell is None or feature.shape:
        return None
    if feature.is_text_in_requests:
        return cell.encode() if OF_KIND.of(feature).is_text else None
    if feature.dtype == "float32" and not cell.strip():
        return math.nan
    try:
        number = float(cell) if feature.dtype == "float32" else int(cell)
    except ValueError:
        return None
    return number if feature.dtype == "float32" or number in _INT64 else None

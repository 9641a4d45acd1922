"""The table of OffsetEmbedding: what it gathers."""

import keras
import numpy as np

from models.embedding import OffsetEmbedding


def test_in_mixed_precision_rows_are_cast_and_not_the_table():
    layer = OffsetEmbedding((3, 4), 2, dtype="mixed_bfloat16")
    found = layer(np.array([[1, 2]], "int32"))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    assert layer.table.dtype == "float32"
    table = keras.ops.cast(layer.table, "bfloat16")
    assert np.array_equal(np.asarray(found[0], "float32"), np.asarray(table, "float32")[[1, 5]])

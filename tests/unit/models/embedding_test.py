"""The table of OffsetEmbedding: what it gathers."""

import keras
import numpy as np

from models import embedding
from models.embedding import OffsetEmbedding


def test_in_mixed_precision_rows_are_cast_and_not_the_table():
    layer = OffsetEmbedding((3, 4), 2, dtype="mixed_bfloat16")
    found = layer(np.array([[1, 2]], "int32"))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    assert layer.table.dtype == "float32"
    table = keras.ops.cast(layer.table, "bfloat16")
    assert np.array_equal(np.asarray(found[0], "float32"), np.asarray(table, "float32")[[1, 5]])


def test_a_large_table_begins_with_the_numbers_that_keras_draws(monkeypatch):
    monkeypatch.setattr(embedding, "_LARGE", 1)
    for seed in (7, 2**31 + 5):
        uniform = keras.initializers.RandomUniform(-0.1, 0.3, seed=seed)
        drawn = embedding._in_one_piece(uniform, (9, 4))
        assert drawn is not uniform
        assert np.array_equal(drawn((9, 4), dtype="float32"), uniform((9, 4), dtype="float32"))
    layer = OffsetEmbedding((5, 4), 4)
    layer(np.zeros((2, 2), "int32"))
    assert layer.table.shape == (9, 4) and 0.02 < np.std(layer.table) < 0.04  # even in ±0.05

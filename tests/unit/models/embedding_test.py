"""The table of OffsetEmbedding: what it gathers, and how a large one is drawn."""

import keras
import numpy as np

from models import embedding
from models.embedding import OffsetEmbedding, in_blocks


def test_in_mixed_precision_rows_are_cast_and_not_the_table():
    layer = OffsetEmbedding((3, 4), 2, dtype="mixed_bfloat16")
    found = layer(np.array([[1, 2]], "int32"))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    assert layer.table.dtype == "float32"
    table = keras.ops.cast(layer.table, "bfloat16")
    assert np.array_equal(np.asarray(found[0], "float32"), np.asarray(table, "float32")[[1, 5]])


def test_a_large_table_is_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr(embedding, "_AT_ONCE", 4_000)
    uniform = keras.initializers.RandomUniform(-0.5, 0.5, seed=7)
    table = in_blocks(uniform)((2_500, 4), "float32")
    assert table.shape == (2_500, 4)
    assert np.array_equal(table[1_000:2_000], uniform.__class__(-0.5, 0.5, seed=8)((1_000, 4)))
    assert len(np.unique(table[:, 0])) > 2_400  # no block repeats another one
    assert abs(table.mean()) < 0.02 and abs(table.std() - 12**-0.5) < 0.01
    assert np.array_equal(in_blocks(uniform)((1_000, 4), "float32"), uniform((1_000, 4)))


def test_other_first_weights_are_made_at_once(monkeypatch):
    monkeypatch.setattr(embedding, "_AT_ONCE", 4)
    assert not np.asarray(in_blocks(keras.initializers.Zeros())((5, 4), "float32")).any()

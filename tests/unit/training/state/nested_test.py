"""Arrays are taken out of a document of JSON, and put back."""

import numpy as np
import pytest

from pipeline.training.state import checkpoints


def test_what_is_packed_is_unpacked():
    weights = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(np.inf), np.zeros(0, np.int64)]
    document = {"best": [{"weights": weights}, None], "wait": 3, "value": float("-inf"), "name": "größe"}
    text, arrays = checkpoints.pack_nested(document)
    weights[0][:] = 7  # as training does meanwhile
    unpacked = checkpoints.unpack_nested(text, arrays)
    kept = unpacked["best"][0].pop("weights")
    assert [(each.dtype, each.shape) for each in kept] == [(each.dtype, each.shape) for each in weights]
    np.testing.assert_array_equal(kept[0], [[0, 1, 2], [3, 4, 5]])
    assert unpacked == {"best": [{}, None], "wait": 3, "value": float("-inf"), "name": "größe"}


def test_what_json_and_arrays_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="a checkpoint cannot hold a set"):
        checkpoints.pack_nested({"names": {1}})

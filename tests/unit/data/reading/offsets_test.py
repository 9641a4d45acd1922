"""Offsets that are looked up in the indexes are those that memory holds."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.selection import select
from pipeline.data.reading import fetch
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA

SHARD = [0, 1, 1, 0, 1]
ORDINAL = [0, 3, 4, 7, 8]


@pytest.fixture(scope="module")
def lookups(tmp_path_factory: pytest.TempPathFactory) -> tuple[fetch.Offsets, fetch.Offsets]:
    """From memory, and from the indexes."""
    rows = [{"id": i, "y": i % 2} for i in range(20)]
    dataset = write_dataset(tmp_path_factory.mktemp("ids") / "1.0.0", SCHEMA, {"train": rows}, shards=2)
    held = fetch.offsets_of(select(dataset, "train").shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_lib, "HELD_RECORDS", 1)
        shards = select(dataset, "train").shards
    assert shards.offsets is None
    return held, fetch.offsets_of(shards)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("is_known", [True, False])  # the number, when it is traced
def test_any_number_is_looked_up(lookups, count: int, is_known: bool):
    if is_known and not count:
        pytest.skip("nobody asks for none that knows so")
    some = tf.TensorSpec([count if is_known else None], tf.int64)
    asked = np.array(SHARD[:count], np.int64), np.array(ORDINAL[:count], np.int64)
    held, found = (tf.function(each, input_signature=[some, some])(*asked) for each in lookups)
    assert found.shape == (count, 2)
    np.testing.assert_array_equal(found, held)

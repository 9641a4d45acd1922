"""The row at a position, in NumPy, is the one that TensorFlow reads there; permutations are undone."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.reading import order, window_parts
from pipeline.data.reading.permutation import Permutation
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.positions import stored_order, stream_order
from pipeline.data.reading.sharding import Share
from tests.shared.matrix import quick_cases
from tests.unit.data.reading.id_stream import numbers_of, write

ROWS = 2_500


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    directory = tmp_path_factory.mktemp("ids")
    return {
        layout: write(directory / layout, range(ROWS), layout=layout, shards=3)
        for layout in ("rows", "blocks")
    }


@pytest.fixture(autouse=True)
def small_parts() -> Iterator[None]:
    """So that an epoch has many parts, windows and canonical shards."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("PART_RECORDS", 7),
            ("WINDOW_ROWS", 300),
            ("WINDOW_PARTS", 2),
            ("LEAST_PARTS", 2),
        ):
            patch.setattr(window_parts, name, value)
        yield


CASES = [
    (layout, shuffle, expression, batch)
    for layout in ("rows", "blocks")
    for shuffle in ("windows", "global")
    for expression in ("train", "train[100:1100]+train[1200:2431]")
    for batch in (1, 48, 250)
]
QUICK = [
    ("rows", "windows", "train[100:1100]+train[1200:2431]", 48),
    ("rows", "global", "train[100:1100]+train[1200:2431]", 48),
]


@pytest.mark.parametrize(("layout", "shuffle", "expression", "batch"), quick_cases(CASES, QUICK))
def test_a_position_has_the_row_of_the_stream(
    datasets, layout: str, shuffle: str, expression: str, batch: int
):
    selection = select(datasets[layout], expression)
    start = batch * (selection.rows // batch // 2)
    plan = plan_reading(selection, share=Share(global_batch=batch), seed=5, position=start, shuffle=shuffle)
    positions, numbers = numbers_of(plan, rows=2 * selection.rows)
    rows_at = stream_order(selection, seed=5, global_batch=batch, shuffle=shuffle)
    np.testing.assert_array_equal(rows_at(positions), numbers[:, 1])
    some = np.random.default_rng(0).permutation(len(positions))[:99]  # any position by itself
    np.testing.assert_array_equal(rows_at(positions[some]), numbers[some, 1])


def test_stored_rows_follow_each_other(datasets):
    selection = select(datasets["rows"], "train[:5]+train[2000:2003]")
    assert stored_order(selection)(np.arange(10)).tolist() == [0, 1, 2, 3, 4, 2000, 2001, 2002, 0, 1]


@settings(max_examples=20, deadline=None)  # each calls TensorFlow some hundred times
@given(
    rows=st.integers(1, 3_000) | st.integers(1 << 29, 1 << 30) | st.integers(1 << 31, 1 << 40),
    seed=st.integers(0, 1 << 32),
    epoch=st.integers(0, 1 << 40),
    window=st.integers(-1, 1 << 40),
)
def test_a_permutation_is_that_of_tensorflow_and_can_be_undone(rows, seed: int, epoch: int, window: int):
    indices = np.unique(np.linspace(0, rows - 1, 50).astype(np.int64))
    graph = order.Permutation(rows, seed=seed)
    expected = graph(
        tf.cast(indices, graph.dtype), tf.constant(epoch, tf.int64), tf.constant(window, tf.int64)
    )
    permutation = Permutation(rows, seed=seed)
    np.testing.assert_array_equal(permutation(indices, epoch, window), expected)
    np.testing.assert_array_equal(permutation.inverse(expected.numpy(), epoch, window), indices)

"""The order of rows is a promise to every run that is continued: it changes only with `order.VERSION`."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import order
from pipeline.data.reading.plan import Mixture, Part, TrainingData, plan_reading
from pipeline.data.reading.sharding import Share
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA, ids_of

ROWS = 20_000  # more than a window


@pytest.fixture(scope="module")
def selections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Selection]:
    rows = [{"id": i, "y": i % 2} for i in range(ROWS)]
    directory = tmp_path_factory.mktemp("ids")
    return {
        layout: select(write_dataset(directory / layout, SCHEMA, {"train": rows}, layout=layout), "train")
        for layout in ("rows", "blocks")
    }


def digest_of(data: TrainingData, shuffle: str) -> str:
    """Of 25,000 ids from position 5,000 on: past the end of an epoch."""
    share = Share(global_batch=1_000)
    plan = plan_reading(data, share=share, seed=1, position=5_000, shuffle=shuffle)
    return hashlib.sha256(ids_of(plan, batches=25).astype("<i8").tobytes()).hexdigest()[:8]


@pytest.mark.parametrize(
    ("layout", "shuffle", "digest"),
    [
        ("rows", "windows", "3d7c1e4c"),
        ("rows", "global", "2c3991dd"),
        ("blocks", "windows", "031e5259"),
        ("blocks", "global", "2c3991dd"),
    ],
)
def test_the_order_is_that_of_its_version(selections, layout: str, shuffle: str, digest: str):
    assert (order.VERSION, digest_of(selections[layout], shuffle)) == (1, digest)


def test_the_order_of_a_mixture_is_that_of_its_version(selections):
    parts = tuple(Part(selection=selections["blocks"], weight=weight) for weight in (3.0, 1.0))
    assert (order.VERSION, digest_of(Mixture(parts=parts), "global")) == (1, "efed621c")


@pytest.mark.parametrize("rows", [[16, 16, 16], [16, 9, 0, 1], [0], [0, 0], [1]])
def test_windows_at_once_are_those_one_by_one(rows):
    epoch, windows = tf.constant(3, tf.int64), [5 * number for number in range(len(rows))]
    together = order.shuffled_windows(
        tf.constant(rows, tf.int64), seed=1, epoch=epoch, windows=tf.constant(windows, tf.int64)
    )
    apart = [
        sum(rows[:number]) + order.shuffled_window(rows[number], seed=1, epoch=epoch, window=window).numpy()
        for number, window in enumerate(windows)
        if rows[number]
    ]
    np.testing.assert_array_equal(together, np.concatenate([np.zeros(0, np.int32), *apart]))

"""The order of rows is a promise to every run that is continued; a permutation holds every row once."""

import hashlib
import itertools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import order
from pipeline.data.reading.order import Permutation, quotient
from pipeline.data.reading.plan import Mixture, Part, TrainingData, plan_reading
from pipeline.data.reading.sharding import Share
from tests.shared.matrix import quick_cases
from tests.unit.data.reading.id_stream import ids_of, write

ROWS = 20_000  # more than a window


@pytest.fixture(scope="module")
def selections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Selection]:
    directory = tmp_path_factory.mktemp("ids")
    return {
        layout: select(write(directory / layout, range(ROWS), layout=layout), "train")
        for layout in ("rows", "blocks")
    }


def digest_of(data: TrainingData, shuffle: str) -> str:
    """Of 25,000 ids from position 5,000 on: past the end of an epoch."""
    share = Share(global_batch=1_000)
    plan = plan_reading(data, share=share, seed=1, position=5_000, shuffle=shuffle)
    return hashlib.sha256(ids_of(plan, batches=25).astype("<i8").tobytes()).hexdigest()[:8]


ORDERS = (
    ("rows", "windows", "3d7c1e4c"),
    ("blocks", "global", "2c3991dd"),
    ("rows", "global", "2c3991dd"),
    ("blocks", "windows", "031e5259"),
)


@pytest.mark.parametrize(
    ("layout", "shuffle", "digest"),
    quick_cases(ORDERS, ORDERS[:2]),
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


def permuted(rows: int, *, epoch: int = 0, seed: int = 1) -> np.ndarray:
    return Permutation(rows, seed=seed)(tf.range(rows), tf.constant(epoch, tf.int64)).numpy()


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 97, 1000, 1024, 65_537, 1_000_003])
def test_every_row_once_and_other_in_every_epoch(rows: int):
    first, second = permuted(rows), permuted(rows, epoch=1)
    assert (np.sort(first) == np.arange(rows)).all()
    assert (np.sort(second) == np.arange(rows)).all()
    assert rows < 90 or (first == second).mean() < 0.05


@pytest.mark.parametrize("rows", [10_007, 1 << 16, 1_000_003])
def test_it_looks_random(rows: int):
    order = permuted(rows)
    # Of two random rows, a third of all lies between.
    assert np.abs(np.diff(order)).mean() / rows == pytest.approx(1 / 3, abs=0.01)
    assert abs(np.corrcoef(order, np.arange(rows))[0, 1]) < 0.03
    # The first sixteenth comes evenly from 64 parts of the data: chi-squared of 63 degrees, 5 deviations.
    counts = np.bincount(order[: rows // 16] * 64 // rows, minlength=64)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 63 + 5 * np.sqrt(2 * 63)
    # Neighbours stay neighbours once or twice, as chance has it.
    assert (np.diff(order) == 1).sum() < 8


def test_any_element_alone_and_an_epoch_for_each():
    order = permuted(5000, epoch=3)
    some = tf.constant([4999, 0, 17])
    alone = Permutation(5000, seed=1)(some, tf.constant(3, tf.int64))
    of_epochs = Permutation(5000, seed=1)(some, tf.constant([3, 3, 4], tf.int64)).numpy()
    np.testing.assert_array_equal(alone, order[[4999, 0, 17]])
    np.testing.assert_array_equal(of_epochs[:2], order[[4999, 0]])
    assert of_epochs[2] == permuted(5000, epoch=4)[17]


def test_windows_have_permutations_of_their_own_and_a_size_may_be_a_tensor():
    rows = tf.constant(3570)
    orders = [
        Permutation(rows, seed=1)(tf.range(rows), tf.constant(2, tf.int64), w).numpy() for w in range(40)
    ]
    assert all((np.sort(order) == np.arange(3570)).all() for order in orders)
    alike = [(a == b).mean() for a, b in itertools.combinations(orders, 2)]
    assert max(alike) < 0.01
    np.testing.assert_array_equal(orders[0], permuted(3570, epoch=2))


def test_the_largest_size_does_not_overflow():
    rows = 1 << 30
    indices = tf.constant(np.random.default_rng(0).integers(0, rows, 10_000), tf.int32)
    found = Permutation(rows, seed=1)(indices, tf.constant(0, tf.int64)).numpy()
    assert ((found >= 0) & (found < rows)).all()
    assert len(set(found)) == len(set(indices.numpy()))
    assert np.abs(found.mean() / rows - 0.5) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1 << 33, (1 << 33) + 12_345])
def test_many_rows_are_even_within_chance(rows: int):
    """Range, lower bits, and pairs and steps of neighbours, of 2**17 rows at three places of an epoch.

    Of chi-squared tests of chance, p is even between 0 and 1: none is tiny, and all together look so.
    """
    p = []
    for seed, epoch in itertools.product(range(4), (0, 1_000)):
        permutation = Permutation(rows, seed=seed)
        for begin in (0, rows // 3, rows - (1 << 17)):
            some = begin + tf.range(1 << 17, dtype=permutation.dtype)
            found = permutation(some, tf.constant(epoch, tf.int64)).numpy()
            assert len(np.unique(found)) == len(found) and found.min() >= 0 and found.max() < rows
            p += _chi_squared(found, rows)
    assert min(p) > 1e-4 / len(p)
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def _chi_squared(found: np.ndarray, rows: int) -> list[float]:
    """The p-values of some rows being drawn evenly."""
    parts, steps = found * 64 // rows, np.diff(found) % rows
    samples = {
        4096: (found * 4096 // rows, parts[1:] * 64 + parts[:-1], steps * 4096 // rows),
        1009: (found % 1009,),
    }
    return [
        scipy.stats.chisquare(np.bincount(sample, minlength=size)).pvalue
        for size, some in samples.items()
        for sample in some
    ]


def test_quotients_are_those_of_integers():
    draw = np.random.default_rng(0)
    divisors = np.unique(np.concatenate([np.arange(1, 300), draw.integers(1, 1 << 31, 500), [(1 << 31) - 1]]))
    most = (1 << 31) - 1
    multiples = np.minimum(draw.integers(0, 1 << 31, 200) // divisors[:, None] * divisors[:, None], most)
    numbers = np.clip(np.concatenate([multiples - 1, multiples, multiples + 1], axis=1), 0, most)
    found = quotient(tf.constant(numbers, tf.int32), tf.constant(divisors[:, None], tf.int32))
    np.testing.assert_array_equal(found, numbers // divisors[:, None])
    large = np.array([0, 7, (1 << 62) - 1], np.int64)
    np.testing.assert_array_equal(quotient(tf.constant(large), 7), large // 7)


@pytest.mark.parametrize("divisor", [49, 98, 103, 107, (1 << 31) - 1])
def test_quotients_by_a_constant_are_those_of_integers_in_a_graph(divisor: int):
    """TensorFlow's optimizer multiplies by the reciprocal there."""
    most = (1 << 31) - 1
    multiples = np.arange(0, most + 1, divisor, dtype=np.int64)[:100_000]
    numbers = np.clip(np.concatenate([multiples - 1, multiples, [most - 1, most]]), 0, most).astype(np.int32)
    found = tf.function(lambda some: quotient(some, tf.constant(divisor)), autograph=False)(numbers)
    np.testing.assert_array_equal(found, numbers // divisor)

"""Orders whose quality is known."""

import numpy as np
import pytest

from benchmarks.reading.shuffle_quality import PARTS, again, spread

ROWS, BATCH = 1 << 17, 256


def permutation(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(ROWS)


def test_a_random_order_is_as_by_chance():
    assert spread(permutation(0), batch=BATCH) == pytest.approx(1, abs=0.03)
    assert again(permutation(0), permutation(1), batch=BATCH) == pytest.approx(1, abs=0.03)


def test_the_stored_order_draws_each_batch_from_one_part():
    stored = np.arange(ROWS)
    # All of a batch in one of 64 parts: ((B - B/64)² + 63 (B/64)²) / (B/64) = 63 B.
    assert spread(stored, batch=BATCH) == pytest.approx(BATCH)
    assert again(stored, stored, batch=BATCH) == pytest.approx((ROWS - 1) / (BATCH - 1))


def test_batches_that_draw_evenly_are_more_even_than_chance():
    dealt = np.arange(ROWS).reshape(PARTS, -1).T.ravel()
    assert spread(dealt, batch=BATCH) == 0


def test_rows_that_only_change_places_in_their_batch_meet_again():
    draw = np.random.default_rng(2)
    inside = np.concatenate([first + draw.permutation(BATCH) for first in range(0, ROWS, BATCH)])
    assert again(np.arange(ROWS), inside, batch=BATCH) == pytest.approx((ROWS - 1) / (BATCH - 1))

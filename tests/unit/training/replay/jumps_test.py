"""Losses that stand out: a jump is found, ordinary noise and a falling loss are not."""

import math

import numpy as np
import pytest

from pipeline.training.replay.step import JUMP, jump_scores, windows_that_jumped


def points(losses: list[float]) -> list[dict]:
    return [{"step": 100 * number, "loss": loss} for number, loss in enumerate(losses, 1)]


def falling(count: int) -> list[float]:
    draw = np.random.default_rng(0)
    return [math.exp(-number / 20) + draw.normal(0, 0.01) for number in range(count)]


def test_a_falling_noisy_loss_has_no_jump():
    assert windows_that_jumped(points(falling(60))) == []


@pytest.mark.parametrize("jump", [0.5, 50.0, math.nan, math.inf])
def test_a_jump_is_found_with_its_steps(jump: float):
    losses = falling(60)
    losses[40] += jump
    (found,) = windows_that_jumped(points(losses))
    assert (found.first, found.last) == (4000, 4100)
    assert found.score > JUMP
    assert found.usual == pytest.approx(np.median(losses[30:40]))


def test_one_jump_does_not_hide_the_next():
    losses = falling(60)
    losses[40] += 50.0
    losses[43] += 0.5
    assert [found.first for found in windows_that_jumped(points(losses))] == [4000, 4300]


def test_the_window_in_which_a_run_stopped_counts():
    (found,) = windows_that_jumped(points(falling(20)), stopped_before=2100)
    assert (found.first, found.last, found.score) == (2000, 2100, math.inf)


def test_a_run_without_log_points_has_the_window_in_which_it_stopped():
    (found,) = windows_that_jumped([], stopped_before=100)
    assert (found.first, found.last) == (0, 100)
    assert windows_that_jumped([]) == []


def test_scores_are_distances_from_the_median_in_robust_deviations():
    losses = np.array([1.0, 1.2, 0.8, 1.1, 0.9, 3.0])
    middle, found = jump_scores(losses, among=losses)
    assert middle == pytest.approx(1.05)
    # |deviations| are .05 .15 .25 .05 .15 1.95, whose median is .15.
    assert found[-1] == pytest.approx((3.0 - 1.05) / (1.4826 * 0.15))


def test_losses_that_hardly_vary_have_no_jumps():
    losses = np.array([1.0] * 20 + [1.01])
    assert jump_scores(losses, among=losses)[1].max() < JUMP

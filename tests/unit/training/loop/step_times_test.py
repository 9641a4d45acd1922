"""Quantiles of step times, exact between log points and to one percent over a process."""

import numpy as np
import pytest

from pipeline.training.loop.clock import StepTimes

SECONDS = np.random.default_rng(0).lognormal(-6, 1, size=10_000)


@pytest.fixture
def times() -> StepTimes:
    """After a first step of a minute, which compiled."""
    times = StepTimes()
    times.add(np.array([60.0]))
    return times


def test_since_the_last_point(times):
    times.add(np.arange(1, 101) / 1e3)
    assert times.take() == pytest.approx({"step_p50_ms": 50.0, "step_p95_ms": 95.0, "step_max_ms": 100.0})
    assert times.take() == {}


def test_over_a_process(times):
    for some in np.array_split(SECONDS, 7):
        times.add(some)
        times.take()
    exact = dict(zip(times.of_all(), 1e3 * np.quantile(SECONDS, [0.5, 0.95, 1.0]), strict=True))
    assert times.of_all() == pytest.approx(exact, rel=0.01)


def test_the_first_step_of_all_does_not_count(times):
    assert (times.take(), times.of_all()) == ({}, {})


def test_no_quantile_is_above_the_longest_step(times):
    times.add(np.full(50, 0.0123))
    assert times.of_all() == dict.fromkeys(("step_p50_ms", "step_p95_ms", "step_max_ms"), pytest.approx(12.3))
    assert max(times.of_all().values()) == times.of_all()["step_max_ms"]


@pytest.mark.parametrize("odd", [0.0, -1e-9, 1e9])
def test_whatever_a_clock_says(times, odd):
    times.add(np.array([odd]))
    assert times.of_all()["step_max_ms"] == pytest.approx(max(0.0, 1e3 * odd))

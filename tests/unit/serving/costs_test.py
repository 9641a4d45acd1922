"""Costs against limits, with made-up numbers."""

import dataclasses

import pytest

from pipeline.base.errors import InputError
from pipeline.serving.check import cost_reasons, signature_reasons
from pipeline.serving.result import Latency, Limits, Measured

LIMITS = Limits()


def latency(rows: int, *medians: float, p99: float | None = None) -> Latency:
    typical = sorted(medians)[len(medians) // 2]
    return Latency(rows=rows, calls=100, median_ms=typical, p99_ms=p99 or 2 * typical, medians=tuple(medians))


CHAMPION = Measured(
    latency=(latency(1, 10, 10, 10), latency(64, 30, 30, 30)),
    memory_mib=400.0,
    process_mib=900.0,
    load_seconds=1.0,
    disk_mib=100.0,
    asked="the recorded requests",
)


def test_a_model_like_the_champion_costs_no_reason():
    assert cost_reasons(CHAMPION, CHAMPION, LIMITS) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"latency": (latency(1, 21, 21, 21), CHAMPION.latency[1])},
            "the median latency of one row is 21 ms, 2.1 times the champion's 10 ms; at most 2 times is "
            "allowed",
        ),
        (
            {"latency": (CHAMPION.latency[0], latency(64, 30, 30, 30, p99=300))},
            "the 99th percentile of the latency of 64 rows is 300 ms, 5.0 times the champion's 60 ms; at "
            "most 4 times is allowed",
        ),
        (
            {"memory_mib": 700.0},
            "the memory that the model takes is 700 MiB, 1.8 times the champion's 400 MiB; at most 1.5 times "
            "is allowed",
        ),
        (
            {"disk_mib": 1000.0},
            "its size on disk is 1,000 MiB, 10.0 times the champion's 100 MiB; at most 2 times is allowed",
        ),
    ],
)
def test_beyond_a_ratio(change, reason):
    assert cost_reasons(dataclasses.replace(CHAMPION, **change), CHAMPION, LIMITS) == [reason]


def test_a_busy_moment_that_meets_both_models_is_no_reason():
    """The second of three rounds is ten times slower for both; the medians over all calls say nothing."""
    champion = dataclasses.replace(CHAMPION, latency=(latency(1, 10, 100, 10),))
    model = dataclasses.replace(CHAMPION, latency=(latency(1, 11, 110, 110),))
    assert cost_reasons(model, champion, Limits(p99_ratio=100)) == []


def test_a_busy_machine_is_no_reason_as_long_as_one_round_is_quiet():
    champion = dataclasses.replace(CHAMPION, latency=(latency(1, 10, 10, 11),))
    model = dataclasses.replace(CHAMPION, latency=(latency(1, 30, 12, 40, p99=40),))
    assert cost_reasons(model, champion, LIMITS) == []
    (told,) = cost_reasons(dataclasses.replace(model, latency=(latency(1, 30, 23, 40),)), champion, LIMITS)
    assert "3.0 times" in told or "2.3 times" in told


def test_a_small_difference_is_no_reason_whatever_its_ratio():
    champion = dataclasses.replace(CHAMPION, latency=(latency(1, 0.1, 0.1),), memory_mib=0.0)
    model = dataclasses.replace(CHAMPION, latency=(latency(1, 1.9, 1.9),), memory_mib=127.0)
    assert cost_reasons(model, champion, LIMITS) == []
    assert cost_reasons(dataclasses.replace(model, memory_mib=129.0), champion, LIMITS) == [
        "the memory that the model takes is 129 MiB, against the champion's 0 MiB; at most 1.5 times is "
        "allowed"
    ]


def test_limits_without_a_champion():
    limits = Limits(median_ms=9, p99_ms=25, memory_mib=400, disk_mib=99.5)
    assert cost_reasons(CHAMPION, None, limits) == [
        "the median latency of one row is 10 ms; at most 9 ms is allowed",
        "its size on disk is 100 MiB; at most 99.5 MiB is allowed",
    ]


def test_an_input_that_nobody_declared_is_named():
    declared = {"raw": {"inputs": {"a": ["float32", [None]]}, "outputs": {"value": ["float32", [None]]}}}
    found = {
        "raw": {
            "inputs": {"a": ["float32", [None]], "b": ["string", None]},
            "outputs": {"other": ["float32", [None]]},
        }
    }
    assert signature_reasons(found, declared) == [
        "signature 'raw': output 'value' is missing; it has 'other'",
        "signature 'raw' asks for an input 'b' that is not declared",
    ]
    assert signature_reasons(declared, declared) == []


@pytest.mark.parametrize(
    ("name", "value"), [("memory_ratio", 0.5), ("calls", 0), ("seconds", -1.0), ("median_ms", float("nan"))]
)
def test_a_limit_that_cannot_be_is_named(name, value):
    with pytest.raises(InputError, match=f"limit '{name}' of the infra check: received {value}; expected a"):
        Limits(**{name: value})

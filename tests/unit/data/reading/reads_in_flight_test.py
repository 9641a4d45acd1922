"""How long reads take, and how many are in flight because of it."""

import itertools

import pytest

from pipeline.data.reading import fetch


def latency(took: list[float]) -> float:
    """As found where reads take so long, the last of them again and again."""
    waits, now = itertools.chain(took, itertools.repeat(took[-1])), [0.0]

    def read(path: str, offset: int) -> None:
        now[0] += next(waits)

    return fetch.latency(["a", "b"], [1 << 20, 10], read=read, clock=lambda: now[0])


def test_the_latency_is_the_mean_of_reads_of_all_files():
    seen = []
    fetch.latency(["a", "b"], [1 << 20, 10], read=lambda *place: seen.append(place), clock=lambda: 0.0)
    assert {path for path, _ in seen} == {"a", "b"}
    assert len({offset for path, offset in seen if path == "a"}) == 8
    assert all(offset == 0 for path, offset in seen if path == "b")  # it is as small as one read
    assert latency([0.01]) == pytest.approx(0.01)
    assert latency([0.01] * 8 + [0.0]) == pytest.approx(0.06 / 14)


def test_two_reads_that_something_else_disturbed_do_not_count():
    assert latency([0.4, 0.05, 1e-5]) == pytest.approx(1e-5)


def test_measuring_ends_soon_where_reads_take_long():
    seen = []
    now = itertools.count(step=1)
    found = fetch.latency(["a"], [10], read=lambda *place: seen.append(place), clock=lambda: next(now))
    assert (found, len(seen)) == (1, 1)


def test_a_read_that_fails_took_its_time_all_the_same():
    now = [0.0]

    def read(path: str, offset: int) -> None:
        now[0] += 0.01
        raise OSError(5, "Input/output error")

    found = fetch.latency(["a"], [10], read=read, clock=lambda: now[0])
    assert found == pytest.approx(0.01)


@pytest.mark.parametrize(("ms", "reads"), [(0.01, 1), (0.2, 1), (1, 40), (10, 400), (1000, 512)])
def test_more_reads_are_in_flight_the_longer_one_takes(ms: float, reads: int):
    found = fetch.reads_for_latency(ms / 1e3)
    assert (found.reads, found.is_slow) == (reads, reads > 1)


def test_records_in_flight_fit_into_memory():
    found = fetch.reads_for_latency(0.01)
    assert found.records(30e3) == 400
    assert found.records(4 << 20) == 64
    assert found.records(1 << 30) == 1

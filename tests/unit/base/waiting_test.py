"""Many files are asked about in turns, whose answers come in order, whether they overlap or not."""

import threading
import time

import pytest

from pipeline.base import files


@pytest.mark.parametrize("waits", [0, 64], ids=["in memory", "over the network"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 10_000])
def test_every_item_is_asked_about_once_and_in_order(monkeypatch, waits: int, count: int):
    told = iter(range(0, 1 << 20, waits or 1)) if waits else iter(lambda: 0, None)
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    turns = list(files.in_turns(list, list(range(count))))
    assert [item for turn in turns for item in turn] == list(range(count))
    assert all(len(turn) <= 64 for turn in turns)


def test_what_is_waited_for_overlaps(monkeypatch):
    """Eight turns wait for each other, which they never could one after the other."""
    told = iter(range(0, 1 << 20, 64))
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    together = threading.Barrier(8, timeout=60)

    def ask(turn: list[int]) -> int:
        return 0 if 0 in turn else together.wait()

    assert len(list(files.in_turns(ask, list(range(64 * 9))))) == 9


def test_an_error_ends_it():
    def ask(turn: list[int]) -> None:
        raise OSError(turn[-1])

    with pytest.raises(OSError, match="63"):
        list(files.in_turns(ask, list(range(1_000))))


def test_switches_that_take_no_time_are_no_waits(monkeypatch):
    """Answers that are there, though the thread was switched off now and then: threads would cost twice."""
    told = iter(range(0, 1 << 20, 64))
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    monkeypatch.setattr(time, "thread_time", time.perf_counter)
    threads = set()

    def ask(turn: list[int]) -> None:
        threads.add(threading.get_ident())
        sum(range(100_000))

    assert len(list(files.in_turns(ask, list(range(64 * 200))))) == 200
    assert threads == {threading.get_ident()}

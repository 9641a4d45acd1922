"""From one number of cores to another."""

import dataclasses
import math

import pytest

from pipeline.data.feed.scaling import Line, Scaling
from tests.pipeline.data.feed.examples import line


def on_one_core(*stages: Line) -> Scaling:
    """Each alone keeps the core busy, and so do all together, one after the other for each example."""
    together_us = sum(stage.cpu_us for stage in stages)
    return Scaling(
        cores=1.0,
        is_shared=False,
        stages=stages,
        together=line("together", 1e6 / together_us, wanted_cores=1.0),
    )


READ = line("read", 1_000.0, wanted_cores=1.0, at_once=2.0)  # 1 ms of a core an example
DECODE = line("decode", 1_000.0, wanted_cores=1.0)
COPY = line("copy", 10_000.0, wanted_cores=1.0, at_once=1.0)  # 0.1 ms


@pytest.mark.parametrize(
    ("cores", "rate", "limiting"),
    [
        (1, 1 / 2.1e-3, "read"),  # all cores are busy with 2.1 ms an example
        (2, 2 / 2.1e-3, "read"),
        (4, 4 / 2.1e-3, "read"),
        (8, 2 / 1e-3, "read"),  # two threads read, however many cores there are
    ],
)
def test_no_stage_is_faster_than_its_calls_that_run_at_once(cores, rate, limiting):
    scaling = on_one_core(READ, DECODE, COPY)
    assert scaling.rate(cores) == pytest.approx(rate)
    assert scaling.limiting(cores).name == limiting


def test_cores_are_promised_up_to_what_reading_gives():
    scaling = on_one_core(READ, DECODE, COPY)
    assert scaling.cores_for(1_900.0) == math.ceil(1_900 * 2.1e-3) == 4
    assert scaling.rate(4) >= 1_900.0 > scaling.rate(3)
    assert scaling.cores_for(2_100.0) is None
    assert scaling.stuck(2_100.0) == (READ,)


def test_stages_that_share_a_thread_run_one_after_the_other():
    batch = line("batch", 10_000.0, wanted_cores=1.0, at_once=1.0, thread="taker")
    copy = dataclasses.replace(COPY, thread="taker")
    assert on_one_core(batch, copy).rate(64) == pytest.approx(5_000.0)
    assert on_one_core(dataclasses.replace(batch, thread=""), copy).rate(64) == pytest.approx(10_000.0)


def test_what_waits_is_as_fast_on_any_number_of_cores():
    disk = line("read", 500.0, wanted_cores=0.1, at_once=2.0)
    scaling = on_one_core(disk, DECODE)
    assert scaling.rate(1) == scaling.rate(64) == 500.0
    assert scaling.bound(disk) == "waiting"


def test_fewer_threads_than_declared_are_noticed_on_an_idle_host():
    python = line("tokenize", 100.0, wanted_cores=1.0)
    idle = dataclasses.replace(on_one_core(python), cores=4.0)
    assert idle.rate_of(python, 64) == pytest.approx(100.0)
    assert dataclasses.replace(idle, is_shared=True).rate_of(python, 64) == pytest.approx(6_400.0)


def test_threads_that_others_kept_from_running_count_as_theirs():
    # Four threads were ready, and got a quarter of two cores; a core takes 1 ms an example.
    together = dataclasses.replace(line("together", 500.0, wanted_cores=0.5), wanted_cores=4.0)
    beside = Scaling(cores=2.0, is_shared=True, stages=(DECODE,), together=together)
    assert beside.rate(2) == pytest.approx(2_000.0)


def test_cores_that_stages_leave_idle_are_left_idle_on_more_cores():
    """And on fewer, all are busy."""
    together = line("together", 750.0, wanted_cores=1.5)  # 2 ms of a core an example
    decode = line("decode", 2_000.0, wanted_cores=2.0)
    half = Scaling(cores=2.0, is_shared=False, stages=(decode,), together=together)
    assert half.rate(4) == pytest.approx(0.75 * 4 / 2e-3)
    assert half.rate(1) == pytest.approx(1 / 2e-3)

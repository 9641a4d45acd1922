"""From one number of cores to another; slices by name and by hand."""

import dataclasses
import math

import pytest

from pipeline.base.errors import InputError
from pipeline.feed import scaling
from pipeline.feed.scaling import EXPECTED, LEAST, MOST, Line, Scaling
from tests.unit.feed.examples import line


def on_one_core(*stages: Line) -> Scaling:
    """Each alone keeps the core busy, and so do all together, one after the other for each example."""
    together_us = sum(stage.cpu_us for stage in stages)
    return Scaling(
        cores=1.0,
        is_shared=False,
        batch=1_000,
        stages=stages,
        together=line("together", 1e6 / together_us, wanted_cores=1.0),
    )


READ = line("read", 1_000.0, wanted_cores=1.0, at_once=2.0)  # 1 ms of a core an example
DECODE = line("decode", 1_000.0, wanted_cores=1.0)
COPY = line("copy", 10_000.0, wanted_cores=1.0, at_once=1.0)  # 0.1 ms
MORE = 1 / MOST.cpu_times  # times the rate that a core gives, at most, where there are more of them


@pytest.mark.parametrize(
    ("cores", "rate", "limiting"),
    [
        (1, 1 / 2.1e-3, "read"),  # all cores are busy with 2.1 ms an example
        (2, MORE * 2 / 2.1e-3, "read"),
        (4, MORE * 4 / 2.1e-3, "read"),
        (8, MORE * 2 / 1e-3, "read"),  # two threads read, however many cores there are
    ],
)
def test_no_stage_is_faster_than_its_calls_that_run_at_once(cores, rate, limiting):
    scaling = on_one_core(READ, DECODE, COPY)
    assert scaling.rate(cores, MOST) == pytest.approx(rate)
    assert scaling.limiting(cores).name == limiting


def test_nothing_is_known_better_than_what_was_measured():
    scaling = on_one_core(READ, DECODE, COPY)
    for assumed in (EXPECTED, LEAST, MOST):
        assert scaling.rate(1, assumed) == pytest.approx(1 / 2.1e-3)


def test_on_more_cores_an_example_may_take_more_of_them():
    scaling = on_one_core(DECODE)
    for cores in (2, 64):
        assert scaling.rate(cores, MOST) == pytest.approx(MORE * cores / 1e-3)
        assert scaling.rate(cores, LEAST) < scaling.rate(cores, EXPECTED) < scaling.rate(cores, MOST)


def test_no_number_of_cores_is_promised_less_than_a_smaller_one_that_was_measured():
    decode, together = (line(name, 4_000.0, wanted_cores=4.0) for name in ("decode", "together"))
    on_four = Scaling(cores=4.0, is_shared=False, batch=64, stages=(decode,), together=together)
    here = on_four.rate(4, LEAST)
    assert on_four.rate(5, LEAST) == here
    assert on_four.rate(8, LEAST) > here


def test_on_fewer_cores_it_may_take_less_which_is_not_promised():
    on_two = dataclasses.replace(on_one_core(DECODE), cores=2.0)
    assert on_two.rate(1, LEAST) == pytest.approx(1 / 1e-3)
    assert on_two.rate(1, EXPECTED) > 1.1 / 1e-3


def test_batches_are_handed_over_across_cores_as_soon_as_there_are_two():
    """Which one core does not show, and which counts where batches are small."""
    small = dataclasses.replace(on_one_core(DECODE), batch=1)
    large = dataclasses.replace(small, batch=1_000)
    assert small.rate(2, LEAST) < large.rate(2, LEAST)
    on_two = dataclasses.replace(small, cores=2.0)
    assert on_two.rate(4, LEAST) == pytest.approx(dataclasses.replace(large, cores=2.0).rate(4, LEAST))


def test_cores_are_promised_up_to_what_was_seen_of_reading():
    scaling = on_one_core(READ, DECODE, COPY)
    cores = scaling.cores_for(600.0)
    assert cores == math.ceil(600.0 * 1e-6 * (2_100.0 * LEAST.cpu_times + LEAST.hand_over_us / 1_000)) == 2
    assert scaling.rate(cores, LEAST) >= 600.0
    # Two calls read, of which one core has shown one.
    assert scaling.cores_for(1_000.0) is None
    assert (scaling.unsure(1_000.0), scaling.stuck(1_000.0)) == ((READ,), ())
    assert scaling.stuck(MORE * 2_100.0) == (READ,)


def test_calls_that_one_core_cannot_show_are_expected_and_not_promised():
    scaling = on_one_core(READ, COPY)
    assert scaling.rate_of(READ, 2, EXPECTED) == pytest.approx(2 / (1e-3 * EXPECTED.cpu_times))
    assert scaling.rate_of(READ, 2, LEAST) == pytest.approx(1 / (1e-3 * LEAST.cpu_times))


def test_cores_that_were_measured_are_promised_without_more_ado():
    decode, together = (line(name, 4_000.0, wanted_cores=4.0) for name in ("decode", "together"))
    on_four = Scaling(cores=4.0, is_shared=False, batch=64, stages=(decode,), together=together)
    assert [on_four.cores_for(each) for each in (1_000.0, 1_001.0, 4_000.0)] == [1, 2, 4]
    assert on_four.cores_for(4_001.0) == math.ceil(4.001 * LEAST.cpu_times)


def test_stages_that_share_a_thread_run_one_after_the_other():
    batch = line("batch", 10_000.0, wanted_cores=1.0, at_once=1.0, thread="taker")
    copy = dataclasses.replace(COPY, thread="taker")
    assert on_one_core(batch, copy).rate(64, MOST) == pytest.approx(MORE * 5_000.0)
    assert on_one_core(dataclasses.replace(batch, thread=""), copy).rate(64, MOST) == pytest.approx(
        MORE * 10_000.0
    )


def test_what_waits_is_as_fast_on_any_number_of_cores():
    disk = line("read", 500.0, wanted_cores=0.1, at_once=2.0)
    scaling = on_one_core(disk, DECODE)
    assert scaling.rate(1) == scaling.rate(64) == 500.0
    assert scaling.bound(disk) == "waiting"


def test_a_stage_that_has_had_all_its_cores_is_no_faster_on_more():
    """Two calls of reading are declared, and ran one after the other: an epoch is one window."""
    read = dataclasses.replace(READ, wanted_cores=1.9)
    together = line("together", 900.0, wanted_cores=1.9)
    on_two = Scaling(cores=2.0, is_shared=False, batch=64, stages=(read,), together=together)
    assert on_two.rate_of(read, 2) == pytest.approx(2_000.0)
    for assumed in (EXPECTED, LEAST):
        assert on_two.rate_of(read, 64, assumed) < 1_000.0


def test_fewer_threads_than_declared_are_noticed_on_an_idle_host():
    python = line("tokenize", 100.0, wanted_cores=1.0)
    idle = dataclasses.replace(on_one_core(python), cores=4.0)
    assert idle.rate_of(python, 64, MOST) == pytest.approx(MORE * 100.0)
    assert dataclasses.replace(idle, is_shared=True).rate_of(python, 64, MOST) == pytest.approx(
        MORE * 6_400.0
    )


def test_what_threads_that_were_ready_would_give_is_all_that_a_stage_gives_here():
    """A disk beside busy neighbours: its threads want half of a core, and get little of that."""
    disk = dataclasses.replace(line("read", 100.0, wanted_cores=0.1), wanted_cores=0.7)  # 1 ms an example
    copy = line("copy", 900.0, wanted_cores=1.0)
    together = line("together", 90.0, wanted_cores=0.2)
    beside = Scaling(cores=2.0, is_shared=True, batch=64, stages=(disk, copy), together=together)
    assert beside.limiting(2.0) is disk
    assert beside.limiting(4.0) is copy


def test_threads_that_others_kept_from_running_count_as_theirs():
    # Four threads were ready, and got a quarter of two cores; a core takes 1 ms an example.
    together = dataclasses.replace(line("together", 500.0, wanted_cores=0.5), wanted_cores=4.0)
    beside = Scaling(cores=2.0, is_shared=True, batch=64, stages=(DECODE,), together=together)
    assert beside.rate(2) == pytest.approx(2_000.0)


def test_cores_that_stages_leave_idle_are_left_idle_on_more_cores():
    """And on fewer, all are busy."""
    together = line("together", 750.0, wanted_cores=1.5)  # 2 ms of a core an example
    decode = line("decode", 2_000.0, wanted_cores=2.0)
    half = Scaling(cores=2.0, is_shared=False, batch=64, stages=(decode,), together=together)
    assert half.rate(4, MOST) == pytest.approx(MORE * 0.75 * 4 / 2e-3)
    assert half.rate(1, LEAST) == pytest.approx(1 / 2e-3)


@pytest.mark.parametrize(
    ("text", "hosts", "replicas", "host_cores"),
    [
        *(("", 1, 1, None), ("4x8", 4, 32, None), ("v5e-1", 1, 1, 24), ("v5e-8", 1, 8, 224)),
        *(("v5litepod-16", 4, 16, 112), ("v6e-256", 64, 256, 180), ("v4-8", 1, 4, 240)),
        *(("v5p-32", 4, 16, 208), ("v5e:2x4", 1, 8, 224), ("v5e:4x8", 8, 32, 112)),
        *(("tpu7x:2x2x1", 1, 8, 224), ("tpu7x:2x2x4", 4, 32, 224)),
    ],
)
def test_hosts_and_replicas(text, hosts, replicas, host_cores):
    found = scaling.parse_slices(text)
    assert (found.hosts, found.replicas, found.host_cores) == (hosts, replicas, host_cores)


@pytest.mark.parametrize(
    "text",
    [
        *("v5e", "v5e-0", "v9-8", "v4-7", "v5e-7", "v5e-2", "v5e-18", "v5p-2", "0x8", "4x", "eight", "4x8x2"),
        *("v5e:", "v5e:3x3", "v9:2x2", "tpu7x:0x2x2"),
        *("\u0663x2", "9" * 5000 + "x1"),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="--slice"):
        scaling.parse_slices(text)

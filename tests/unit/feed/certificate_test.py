"""From speeds to a verdict."""

import json
import math

import pytest

from pipeline.feed.certificate import MARGIN
from pipeline.feed.scaling import LEAST, Slice, parse_slices
from pipeline.feed.table import advice
from tests.unit.feed.examples import DECODE, READ, certificate, line


@pytest.mark.parametrize(
    ("step_ms", "verdict"),
    [(1_000.0, "FED"), (138.0, "FED"), (137.0, "STARVED"), (10.0, "STARVED"), (None, "NO STEP TIME GIVEN")],
)
def test_fed_with_a_tenth_to_spare(step_ms, verdict):
    assert certificate(step_ms=step_ms).verdict == verdict


def test_the_shortest_step_is_fed():
    shortest = certificate(step_ms=None).shortest_step_ms
    assert shortest == pytest.approx(1e3 * MARGIN * 1_000 / 8_000)
    assert certificate(step_ms=shortest * 1.001).is_fed
    assert not certificate(step_ms=shortest * 0.999).is_fed


def test_the_slowest_stage_alone_is_the_limit():
    assert certificate(READ, DECODE).limiting is DECODE


@pytest.mark.parametrize(
    ("wanted_cores", "bound"), [(0.1, "waiting"), (1.0, "calls"), (2.9, "calls"), (3.1, "cores")]
)
def test_what_a_stage_would_need(wanted_cores, bound):
    assert certificate().bound(line("read", 1.0, wanted_cores=wanted_cores)) == bound


def test_a_shared_host_shows_no_lack_of_threads():
    one_thread = line("read", 1.0, wanted_cores=1.0)
    assert certificate(others_cores=2.0).bound(one_thread) == "cores"


@pytest.mark.parametrize(
    ("rate", "wanted_cores", "is_start"),
    [(40.0, 4.0, True), (40.0, 1.0, True), (40.0, 0.1, False), (2.0, 0.1, False)],
)
def test_a_cold_read_that_takes_the_cores_is_the_limit_and_no_slow_disk(rate, wanted_cores, is_start):
    # 25,000 µs of an example and more, where the page cache takes 500; a start, unless the cores are idle.
    cold = line("from disk", rate, wanted_cores=wanted_cores)
    judged = certificate(cold=cold)
    assert (judged.limiting, judged.cold_is_costly) == (cold, is_start)
    assert ("waits for no disk" in " ".join(advice(judged))) == is_start
    assert ("local disk" in " ".join(advice(judged))) != is_start


def test_cores_follow_from_the_cpu_that_an_example_takes():
    # 10,000 examples a second of 500 µs are 5 cores; with the margin 5.5; where more than these four run, 8.
    assert certificate(step_ms=100.0).cores_needed == math.ceil(5.5 * LEAST.cpu_times) == 8


def test_what_was_measured_counts_for_more_than_what_follows_from_its_parts():
    slow = line("read", 8_000.0, wanted_cores=0.1, at_once=2.0)
    # 8,000 examples/s on 4 cores: enough for 7,200, though reading alone gave hardly more than that.
    assert certificate(slow, DECODE, step_ms=138.0).cores_needed == 4
    # Not for 7,300. Had other processes taken cores, the same four might be enough.
    few = line("read", 50_000.0, wanted_cores=4.0)
    assert certificate(few, DECODE, step_ms=137.0).cores_needed > 4


def test_no_number_of_cores_helps_a_disk():
    disk = line("read", 2_000.0, wanted_cores=0.1, at_once=2.0)
    starved = certificate(disk, DECODE, step_ms=100.0)
    assert starved.cores_needed is None
    assert starved.stuck == (disk,)
    assert certificate(disk, DECODE, step_ms=1_000.0).stuck == ()


def test_the_verdict_is_by_what_was_measured_beside_whatever_else_ran():
    assert certificate(step_ms=138.0, others_cores=3.0).verdict == "FED"
    assert certificate(step_ms=137.0, others_cores=3.0).verdict == "STARVED"


def test_the_colder_of_two_measurements_counts():
    cold = line("from disk", 4_000.0, wanted_cores=0.4)
    assert certificate(step_ms=200.0).verdict == "FED"
    judged = certificate(step_ms=200.0, cold=cold)
    assert (judged.verdict, judged.limiting, judged.cores_needed) == ("STARVED", cold, None)
    assert judged.shortest_step_ms == pytest.approx(1e3 * MARGIN * 1_000 / 4_000)


def test_a_disk_that_is_fast_enough_changes_no_limit():
    cold = line("from disk", 7_900.0)
    assert certificate(cold=cold).limiting is DECODE
    assert certificate(cold=cold).measured is cold


def test_a_host_of_the_slice_has_its_own_cores():
    # 224 cores at 500 µs are 448,000 examples a second, but one thread reads 50,000, and may take longer.
    expected = certificate(step_ms=100.0, slice_=parse_slices("v5e-8")).of_slice
    assert (expected.cores, expected.limiting) == (224, "read")
    assert expected.examples_per_s == pytest.approx(50_000.0 / LEAST.cpu_times)
    assert expected.headroom == pytest.approx(5.0 / LEAST.cpu_times)
    assert certificate(slice_=parse_slices("4x8")).of_slice is None


def test_hosts_share_a_step():
    demand = certificate(slice_=Slice(name="2x4", hosts=2, replicas=8)).demand
    assert demand.examples_per_s == 5_000.0


def test_json_says_what_the_table_does():
    document = json.loads(json.dumps(certificate().as_json()))
    assert document["verdict"] == "STARVED"
    assert document["limiting"] == "decode"
    assert document["limited_by"] == "cores"
    assert document["needed_examples_per_s"] == 10_000.0
    assert [stage["name"] for stage in document["stages"]] == ["read", "decode"]
    assert document["stages"][0]["mb_per_s"] == 50.0

"""The time of sums over devices, against computations by hand."""

import dataclasses

import pytest

from pipeline.base.accelerators import ACCELERATORS
from pipeline.forecast import links, stages
from pipeline.forecast.stages import Band
from pipeline.forecast.target import targets_of

SIZE, OPERATIONS = 100_000_000, 3


def sums(name: str) -> links.Sums | None:
    (target,) = targets_of([name])
    return links.sums(target, size=SIZE, operations=OPERATIONS)


def test_a_mesh_has_a_link_an_axis():
    # v5e:2x4: 8 chips; each sends 7/8 of 100 MB twice, 175 MB. The chip in a corner has a link of 50 GB/s on
    # each axis: 1.75 ms. Both ways along lines of 2 and 4 chips are 2 + 6 hops, three times.
    found = sums("v5e:2x4")
    assert found.links == 2
    assert found.transfer == pytest.approx(1.75e-3)
    # 10 links of a 2x4, each both ways, carry 2 · 7 · 100 MB at the least.
    assert found.least == pytest.approx(2 * 7 * 1e8 / (2 * 10 * 50e9))
    assert found.latency == pytest.approx(24e-6)
    assert found.seconds == pytest.approx(1.774e-3)


def test_a_torus_has_two_links_an_axis():
    # v5p:4x4x8: 128 chips; 127/128 of 100 MB twice are 198.4375 MB, over 6 links of 100 GB/s: 330.729 µs.
    # Half of each ring, both ways, are 4 + 4 + 8 hops, three times.
    found = sums("v5p:4x4x8")
    assert found.links == 6
    assert found.transfer == pytest.approx(330.729e-6, rel=1e-5)
    assert found.latency == pytest.approx(48e-6)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("v5e:2x2", 2),
        ("v5e:8x16", 3),  # the longer axis is a ring
        ("v6e:16x16", 4),
        ("v5p:2x2x1", 2),
        ("v4:2x2x4", 3),  # no whole cube: no rings
        ("v4:4x4x4", 6),
        ("h100:8", 1),
    ],
)
def test_rings_are_those_of_whole_pods_and_cubes(name, count):
    assert sums(name).links == count


def test_two_devices_of_a_chip_are_one_and_gpus_have_a_switch():
    (target,) = targets_of(["tpu7x:2x2x1"])
    assert target.devices == 8
    assert sums("tpu7x:2x2x1").transfer == pytest.approx(2 * 3 / 4 * 1e8 / (2 * 100e9))
    assert sums("h100:8").seconds == pytest.approx(2 * 7 / 8 * 1e8 / 450e9)


@pytest.mark.parametrize("name", ["v5e:1x1", "tpu7x:1x1x1", "h100:1", "h100:16", "l4:4"])
def test_no_links_and_unknown_ones_have_no_time(name):
    assert sums(name) is None


def test_all_tpus_have_links():
    assert all(each.link_gb_per_s for each in ACCELERATORS if each.is_tpu)


def test_sums_widen_a_band_from_hidden_to_added():
    found = sums("v5e:2x4")
    widened = stages.with_sums(Band(low=2e-3, high=3e-3), found)
    assert (widened.low, widened.high) == pytest.approx((2e-3, 4.774e-3))
    # What takes longer than the work cannot hide behind it.
    longer = stages.with_sums(Band(low=1e-3, high=1.5e-3), found)
    assert (longer.low, longer.high) == pytest.approx((1.4e-3, 3.274e-3))
    least = stages.with_sums(Band(low=1e-3, high=1e-3), found)
    assert least == Band(low=found.least, high=found.least)


def test_a_stage_says_that_it_is_a_model():
    said = stages._of_sums(sums("v5e:2x4")).verdict
    assert said == (
        "95.4 MiB in 3 operations, over 2 links of a chip: up to 1.77 ms a step, which work may hide; "
        "a model's estimate, not measured"
    )
    alone = stages._of_sums(dataclasses.replace(sums("h100:8"), operations=1)).verdict
    assert "in an operation, over a link of a chip" in alone

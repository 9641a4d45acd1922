"""Slices by their names."""

import pytest

from pipeline.base.errors import InputError
from pipeline.forecast.target import targets_of


@pytest.mark.parametrize(
    ("name", "accelerator", "devices", "topology"),
    [
        ("v5e:2x4", "TPU v5e", 8, "v5e:2x4"),
        ("V6E:16x16", "TPU v6e", 256, "v6e:16x16"),
        ("v5p:2x2x1", "TPU v5p", 4, "v5p:2x2x1"),
        ("tpu7x:2x2x1", "TPU tpu7x", 8, "tpu7x:2x2x1"),  # two devices a chip
        ("h100:8", "H100 SXM", 8, ""),
    ],
)
def test_a_slice_has_devices_and_a_topology(name, accelerator, devices, topology):
    (found,) = targets_of([name, name])
    assert (found.accelerator.name, found.devices, found.topology) == (accelerator, devices, topology)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v8e:2x4", "one of b200"),
        ("v5e", "a topology of 2 axes: v5e:1x1 for a chip"),
        ("v5e:3x3", "hosts of 2x2 chips, as in v5e:2x2"),
        ("v4:1x2x1", "hosts of 2x2 chips"),
        ("v5e:2x2x1", "a topology of 2 axes"),
        ("v5p:2x2", "a topology of 3 axes"),
        ("v5e:0x4", "a topology"),
        ("h100:0", "a number of devices, as in h100:8"),
        ("h100:2x2", "a number of devices"),
        ("", "one of"),
    ],
)
def test_another_name_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        targets_of([name])

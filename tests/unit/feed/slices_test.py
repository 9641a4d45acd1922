"""Slices by name and by hand."""

import pytest

from pipeline.base.errors import InputError
from pipeline.feed import scaling


@pytest.mark.parametrize(
    ("text", "hosts", "replicas", "host_cores"),
    [
        ("", 1, 1, None),
        ("4x8", 4, 32, None),
        ("v5e-1", 1, 1, 24),
        ("v5e-8", 1, 8, 224),
        ("v5litepod-16", 4, 16, 112),
        ("v6e-256", 64, 256, 180),
        ("v4-8", 1, 4, 240),
        ("v5p-32", 4, 16, 208),
    ],
)
def test_hosts_and_replicas(text, hosts, replicas, host_cores):
    found = scaling.parse_slices(text)
    assert (found.hosts, found.replicas, found.host_cores) == (hosts, replicas, host_cores)


@pytest.mark.parametrize(
    "text",
    [
        "v5e",
        "v5e-0",
        "v9-8",
        "v4-7",
        "v5e-7",
        "v5e-2",
        "v5e-18",
        "v5p-2",
        "0x8",
        "4x",
        "eight",
        "4x8x2",
        "\u0663x2",
        "9" * 5000 + "x1",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="--slice"):
        scaling.parse_slices(text)

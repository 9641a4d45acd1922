"""The cores of this process, not those of the host."""

import pytest

from pipeline.data.reading import sharding
from pipeline.data.reading.sharding import host_cores


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64.0), ("150000 100000", 1.5)])
def test_a_containers_quota_counts(tmp_path, monkeypatch, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(sharding, "CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(sharding.os, "sched_getaffinity", lambda pid: range(64))
    assert host_cores() == cores


def test_a_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sharding, "CPU_QUOTA", tmp_path / "absent")
    monkeypatch.delattr(sharding.os, "sched_getaffinity")
    assert host_cores() >= 1

"""What a process used of its host."""

import dataclasses
import os

from pipeline.data.reading.sharding import host_cores
from pipeline.feed import measure


def test_work_counts_as_work():
    before = measure.usage_now()
    while measure.usage_now().since(before).cpu_s < 0.02:
        pass
    used = measure.usage_now().since(before)
    assert used.cpu_s <= used.wall_s * host_cores() + 0.1
    assert used.wanted_cores >= used.busy_cores


def test_others_count_on_the_cores_that_this_process_may_use(tmp_path, monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")

    def host(busy_s: float) -> measure.Usage:
        """All of it on core 7; core 3 is busier, and not ours."""
        lines = [f"cpu{core} {round(s * ticks)} 0 0 500 0 0 0 0 0 0" for core, s in ((3, 60.0), (7, busy_s))]
        (tmp_path / "stat").write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 5"]))
        return dataclasses.replace(measure.usage_now(), wall_s=busy_s, cpu_s=0.0)

    monkeypatch.setattr(measure, "HOST", tmp_path / "stat")
    monkeypatch.setattr(measure.os, "sched_getaffinity", lambda pid: {7})
    before = host(1.0)
    assert host(3.5).since(before).others_cores == 1.0


def test_a_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    for name in ("TASKS", "HOST", "MEMORY"):
        monkeypatch.setattr(measure, name, tmp_path / "absent")
    before = measure.usage_now()
    assert measure.usage_now().since(before).others_s == 0.0
    assert measure.memory_bytes() == 0

"""What a process used, and what it would have used on an idle host."""

import pytest

from pipeline.data.feed import usage
from pipeline.data.feed.usage import Span


def span(*, cpu_s: float, queued_s: float = 0.0, others_s: float = 0.0, idle_share: float = 0.0) -> Span:
    return Span(wall_s=1.0, cpu_s=cpu_s, queued_s=queued_s, others_s=others_s, idle_share=idle_share)


@pytest.mark.parametrize(
    ("one", "slowdown"),
    [
        (span(cpu_s=2.0, queued_s=2.0), 1.0),  # nobody else ran
        (span(cpu_s=0.5, queued_s=3.5, others_s=1.5), 4.0),  # four threads got half of one of two cores
        (span(cpu_s=0.5, queued_s=0.5, others_s=1.5), 1.0),  # one thread: not known what it waited for
        (span(cpu_s=1.0, queued_s=3.0, others_s=1.0, idle_share=0.5), 1.0),  # a core was free
    ],
)
def test_what_others_took_is_known_where_all_cores_were_wanted(one, slowdown):
    assert one.slowdown(cores=2.0) == slowdown


def test_work_counts_as_work():
    before = usage.now()
    while usage.now().since(before).cpu_s < 0.02:
        pass
    used = usage.now().since(before)
    assert used.cpu_s <= used.wall_s * usage.cores() + 0.1
    assert used.wanted_cores >= used.busy_cores


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64.0), ("150000 100000", 1.5)])
def test_a_containers_quota_counts(tmp_path, monkeypatch, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(usage, "CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(usage.os, "sched_getaffinity", lambda pid: range(64))
    assert usage.cores() == cores


def test_a_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    for name in ("TASKS", "HOST", "MEMORY", "CPU_QUOTA"):
        monkeypatch.setattr(usage, name, tmp_path / "absent")
    assert usage.now().since(usage.now()).idle_share == 1.0
    assert usage.memory_bytes() == 0
    assert usage.cores() >= 1

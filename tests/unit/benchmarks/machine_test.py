"""The machine of a benchmark is told, and its cores are given back."""

import pathlib

from benchmarks.reading import machine


def test_caches_and_instructions_are_told():
    told = machine.described()
    assert "cores" in told and "GB" in told
    if pathlib.Path("/sys/devices/system/cpu/cpu0/cache/index2").exists():
        assert "L2 " in told


def test_cores_are_taken_only_meanwhile():
    before = _children()
    with machine.taken(2):
        assert len(_children() - before) == 2
    assert _children() == before


def _children() -> set[str]:
    lists = pathlib.Path("/proc/self/task").glob("*/children")
    return {pid for children in lists for pid in children.read_text().split()}

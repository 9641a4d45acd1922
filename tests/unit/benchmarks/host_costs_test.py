"""The verdict on many hosts: what each pays and reads beside one alone, by medians, and hosts all over."""

from benchmarks.reading import host_costs
from benchmarks.reading.host_costs import Measured


def measured(cpu_us: float, read: float = 1.0) -> Measured:
    return Measured(cpu_us=cpu_us, bytes=read)


def test_the_median_of_the_rounds_decides():
    rounds = [(measured(1.0), measured(each, read)) for each, read in ((1.2, 1.1), (9.0, 1.0), (1.0, 5.0))]
    table, held = host_costs.verdict({host_costs.CASES[0]: rounds})
    assert held
    assert table.splitlines()[1].split() == ["windows", "of", "rows", "1.000", "1.200", "1.20", "1.10"]


def test_too_much_of_either_is_not_held():
    for each in (measured(1.31), measured(1.0, 1.21)):
        _, held = host_costs.verdict({case: [(measured(1.0), each)] for case in host_costs.CASES})
        assert not held


def test_the_first_and_the_last_host_are_played():
    assert host_costs.played(64) == [0, 21, 42, 63]
    assert host_costs.played(2) == [0, 1]

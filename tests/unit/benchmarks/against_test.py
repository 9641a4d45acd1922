"""Interleaved comparison of two trees, on figures that are made up."""

import pathlib
import sys
from collections.abc import Iterator

import pytest

from benchmarks.checkout import CommandError, Tree, checked_out
from benchmarks.interleaving import MEASUREMENTS, Costs, Measurement, interleaved, table
from pipeline.base.errors import InputError

BEFORE, AFTER = (
    Tree(name=name, root=pathlib.Path(name), python=pathlib.Path(sys.executable))
    for name in ("before", "after")
)
ONE, OTHER = MEASUREMENTS[:2]


def test_each_tree_goes_first_in_turn_and_medians_count():
    figures: Iterator[float] = iter([1.0, 2.0, 2.1, 9.0, 1.1, 50.0])
    order = []

    def measure(tree: Tree, one: Measurement) -> float:
        order.append(tree.name)
        return next(figures)

    costs = interleaved([ONE], BEFORE, AFTER, rounds=3, measure=measure)
    assert order == ["before", "after", "after", "before", "before", "after"]
    assert costs == {ONE: Costs(before=1.1, after=2.1)}


@pytest.mark.parametrize(("after", "within"), [(1.049, True), (1.051, False), (0.951, True), (0.949, False)])
def test_five_percent_either_way(after, within):
    assert Costs(before=1.0, after=after).within is within


def test_the_second_figure_stands_beside_the_first_and_counts():
    bad, good = Costs(before=1.0, after=1.2), Costs(before=1.0, after=1.01)
    lines = table({ONE: bad, OTHER: good}, {ONE: good}).splitlines()
    assert "1.200" in lines[1]
    assert "1.010" in lines[1]
    assert lines[1].endswith("yes")
    assert table({ONE: bad}, {ONE: bad}).endswith("NO")


def test_a_command_that_fails_says_why(tmp_path):
    tree = Tree(name="before", root=tmp_path, python=pathlib.Path(sys.executable))
    with pytest.raises(CommandError, match="No module named no_such"):
        tree.run("no_such", directory=tmp_path)


def test_an_unknown_commit_is_refused():
    with pytest.raises(InputError, match=r"--commit=0000000.*git log"), checked_out("0000000"):
        pass

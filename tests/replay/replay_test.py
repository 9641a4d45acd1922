"""A short form of `python -m tests.replay`: one run that kill -9 ends, and four poisoned rows."""

import functools
import pathlib
import random

from tests.replay import pairs, poisoned, runs
from tests.replay.subjects import ONE, TWO_REPLICAS, Subject
from tests.shared import forked

STEPS = 40
SUBJECT = Subject(name="short", layout="blocks", is_mixture=True, parts=(TWO_REPLICAS, ONE))


def compare(folder: pathlib.Path) -> None:
    trained = {"short": runs.train(SUBJECT, folder, random.Random(0), steps=STEPS)}
    assert trained["short"].repeated
    found = pairs.replay_pairs(trained, pairs=30, draw=random.Random(1))
    assert all(pair.is_equal for pair in found)


def find(folder: pathlib.Path) -> None:
    found = poisoned.find(folder, poisoned.convert(folder, rows=1_600, poisoned=4))
    assert [each.rank for each in found] == [1, 1, 1, 1]


def test_steps_of_a_killed_and_spread_run_are_what_was_trained_on(tmp_path):
    ended = forked.call(functools.partial(compare, tmp_path / "run"), tmp_path / "output", timeout=120)
    assert ended.code == 0, ended.stderr


def test_poisoned_rows_are_the_first_of_their_step(tmp_path):
    ended = forked.call(functools.partial(find, tmp_path / "run"), tmp_path / "output", timeout=120)
    assert ended.code == 0, ended.stderr

"""A slice of `python -m tests.pictures`: what the conversion takes, a model sees as Pillow does."""

import itertools

from tests.pictures import outcomes
from tests.pictures.subtypes import subtypes


def test_pictures_are_refused_or_seen_as_pillow_reads_them():
    # One size and its transposition, because every other one is traced again.
    few = itertools.islice(outcomes.pictures(len(subtypes()), sizes=[(8, 12)], channels=[3]), 0, None, 4)
    found = outcomes.compared(list(few))
    assert [one for one in found if one.failures] == []
    assert sum(not one.refused for one in found) > len(found) / 3


def test_damaged_pictures_are_refused_or_decoded():
    found = outcomes.decoded(list(itertools.islice(outcomes.damaged(300, channels=[3]), 0, None, 7)))
    assert [one for one in found if one.failures] == []

"""A slice of `make pictures`: what the conversion takes, is decoded as Pillow decodes it."""

from tests.pictures import outcomes, readers
from tests.pictures.subtypes import subtypes


def test_pictures_are_refused_or_seen_as_pillow_reads_them():
    each = list(outcomes.pictures(len(subtypes()), channels=[3]))
    found = outcomes.compared(each, readers.decoder)
    assert [one for one in found if one.failures] == []
    assert sum(not one.refused for one in found) > len(found) / 3


def test_damaged_pictures_are_refused_or_decoded():
    found = outcomes.decoded(list(outcomes.damaged(300, channels=[3])), readers.decoder)
    assert [one for one in found if one.failures] == []
    assert sum(not one.refused for one in found) > len(found) / 10

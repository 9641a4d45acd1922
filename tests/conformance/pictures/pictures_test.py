"""A slice of `make soak CASES=pictures*`: what the conversion takes, is decoded as Pillow decodes it."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.conformance.pictures import readers
from tests.conformance.pictures.subtypes import subtypes
from tests.soak import seen_pictures as outcomes


@pytest.mark.slow
def test_pictures_are_seen_as_pillow_reads_them():
    found = outcomes.compared(list(outcomes.pictures(len(subtypes()), channels=[3])), readers.decoder)
    assert [one for one in found if one.failures] == []
    assert sum(not one.refused for one in found) > len(found) - 5


@pytest.mark.slow
def test_damaged_pictures_are_refused_or_decoded():
    found = outcomes.decoded(list(outcomes.damaged(300, channels=[3])), readers.decoder)
    assert [one for one in found if one.failures] == []
    assert sum(not one.refused for one in found) > len(found) / 10


@pytest.mark.parametrize(
    "channels", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_a_picture_of_a_request_is_refused_or_seen_as_pillow_reads_it(channels):
    decode = readers.decoder(0, 0, channels)["decoding"]
    seen = 0
    for one in outcomes.pictures(len(subtypes()), seed=channels, channels=[channels]):
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            [pixels] = decode([one.data])
            expected = readers.by_pillow(one.data, channels=channels)
            np.testing.assert_allclose(pixels.astype(int), expected, atol=2, err_msg=one.name)
            seen += 1
    assert seen > len(subtypes()) / 4

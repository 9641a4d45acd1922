"""Patterns choose variables by their path."""

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.experiment.model import matching

KEY = "optimizer.not_decayed"


def variables() -> list[keras.Variable]:
    layers = [keras.layers.Dense(1, use_bias=False, name=name) for name in ("block_1", "Block_12")]
    for layer in layers:
        layer.build((None, 1))
    return [layer.kernel for layer in layers]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [((), []), (("block_1/*",), [0]), (("Block*",), [1]), (("block_1*", "*kernel"), [0, 1])],
)
def test_capitals_count_and_each_comes_once(patterns, chosen):
    both = variables()
    found = matching(patterns, both, key=KEY)
    assert [each.path for each in found] == [both[number].path for number in chosen]


def test_every_pattern_must_match():
    message = r"optimizer.not_decayed: received 'head/\*'.*patterns of Block_12/kernel, block_1/kernel"
    with pytest.raises(InputError, match=message):
        matching(("*", "head/*"), variables(), key=KEY)

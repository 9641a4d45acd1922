"""A mixture is written as directories, splits and weights, or is refused by name."""

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.training.experiment import data


@pytest.mark.parametrize(
    "mixture",
    [
        (("data/1.0.0", "train"),),
        ("data/1.0.0", "train", 1.0),
        (("data/1.0.0", "train", "1"),),
        (("data/1.0.0", "train", None),),
        (("data/1.0.0", "train", True),),
        ((5, "train", 1.0),),
        (("data/1.0.0", 5, 1.0),),
        (("", "train", 1.0),),
    ],
)
def test_a_mixture_of_anything_else_is_refused(mixture: tuple):
    config = base.get_config()
    config.mixture = mixture
    with pytest.raises(
        InputError, match=r"^--config.mixture: received .*; expected a directory, a split and a"
    ):
        data.others(config)

"""The learning rate of larger and smaller batches."""

import pytest

from pipeline.configs import base
from pipeline.training.experiment.rate_scaling import RateScaling


@pytest.mark.parametrize(
    ("how", "batch", "rate"), [("none", 512, 0.001), ("linear", 512, 0.004), ("linear", 32, 0.00025)]
)
def test_the_rate_of_a_batch(how, batch, rate):
    config = base.get_config()
    config.global_batch = batch
    found = RateScaling(how=how, file_batch=128).scaled(config)
    assert found.optimizer.learning_rate == pytest.approx(rate)
    assert config.optimizer.learning_rate == 0.001  # it is a copy


def test_it_is_told():
    config = base.get_config()
    config.global_batch = 1_024
    assert RateScaling(how="linear", file_batch=128).told(config) == (
        "0.008, which is 0.001 × 1,024 / 128, the global batch of the config file (--lr_scaling=linear)"
    )
    assert RateScaling().told(config) == "0.001 for any global batch (--lr_scaling=none)"

"""The smallest run that still has all that a resumed one could get wrong."""

from ml_collections import ConfigDict

from tests.soak import adult_config


def get_config() -> ConfigDict:
    config = adult_config.get_config()
    config.global_batch = 16
    config.model.hidden = (4,)
    config.train.epochs = 2.0
    config.train.steps_per_loop = 3
    config.train.checkpoint_every_steps = 5
    return config

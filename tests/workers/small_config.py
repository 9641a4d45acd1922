"""A small run whose batch can be parted among one to four workers."""

from ml_collections import ConfigDict

from tests.pipeline.training.small_run import small_config


def get_config() -> ConfigDict:
    config = small_config()
    config.global_batch = 48
    config.model.dropout = 0.0
    config.train.checkpoint_every_steps = 5
    config.evaluation.every_epochs = 2
    return config

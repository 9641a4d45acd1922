"""Trains `network.py`, which stands in this folder. Arrows must not be mirrored."""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {"name": "network:arrows"}
    config.optimizer.learning_rate = 3e-3
    config.train.steps = 400
    return config

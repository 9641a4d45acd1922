"""The tabular network, small and short: two CPU cores train it in seconds."""

from pipeline.configs import base, tabular


def get_config() -> base.Config:
    config = tabular.get_config()
    config.model.members = 4
    config.train.steps = 600
    return config

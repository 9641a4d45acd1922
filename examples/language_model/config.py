"""A transformer for a few kilobytes of text."""

from pipeline.configs import base, language_model


def get_config() -> base.Config:
    config = language_model.get_config()
    config.model.update({"width": 32, "depth": 2, "heads": 2})
    config.train.steps = 200
    return config

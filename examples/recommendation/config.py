"""Two towers: a vector of what was read, and one for each book."""

from pipeline.configs import base, retrieval


def get_config() -> base.Config:
    config = retrieval.get_config()
    config.model.k = 3
    config.train.steps = 200
    return config

"""A small transformer over what was read; `two_tower` fits where the order does not matter."""

from pipeline.configs import base, retrieval


def get_config() -> base.Config:
    config = retrieval.get_config()
    config.model = {"name": "sequence_recommender", "k": 3}
    config.train.steps = 250
    return config

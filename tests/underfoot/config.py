"""Small steps, so that many log points and checkpoints come in seconds."""

from ml_collections import ConfigDict

from pipeline.configs import base

STEPS, LOGGED = 3_000, 20  # of a run, and between its log points


def get_config() -> ConfigDict:
    config = base.get_config()
    config.global_batch = 16
    config.model = ConfigDict({"name": "wide_deep", "embedding": 2, "hidden": (8,), "dropout": 0.2})
    config.train.epochs = 0.0
    config.train.steps = STEPS
    config.train.steps_per_loop = 4
    config.train.log_every_steps = LOGGED
    config.train.checkpoint_every_steps = 2 * LOGGED
    config.evaluation.every_epochs = 6
    return config

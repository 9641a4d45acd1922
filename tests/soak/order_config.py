"""A run whose history tells which example stood at which position of the stream; same_as.py trains it.

A step holds one example. The inputs are zeros and nothing is learned, so the model predicts 0 for ever, and
the loss of a step is the square of the example's label, which is the example's number.
"""

from ml_collections import ConfigDict

from pipeline.configs import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.global_batch = 1
    config.model = ConfigDict({"name": "wide_deep", "frequencies": 0, "hidden": (), "dropout": 0.0})
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 0.0
    config.optimizer.weight_decay = 0.0
    config.train.standardise_labels = False  # the loss is in the numbers themselves
    config.train.log_every_steps = 1
    config.train.checkpoint_every_steps = 1_000_000
    config.evaluation.every_epochs = 1_000_000
    return config

"""The run that goldens are made of: small, and its losses tell which example stood at which position.

A step holds one example. Labels are ten times the example's number and predictions stay near 0, so the square
root of a loss is the label, give or take a prediction.
"""

from ml_collections import ConfigDict

from pipeline.configs import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.global_batch = 1
    config.model = ConfigDict(
        {"name": "wide_deep", "embedding": 2, "frequencies": 1, "hidden": (4,), "dropout": 0.1}
    )
    config.optimizer.schedule = "constant"  # the run can be made longer and go on as it would have
    config.optimizer.warmup_steps, config.optimizer.warmup_part = 5, 0.0
    config.train.log_every_steps = 1
    config.train.checkpoints_kept = 1
    config.evaluation.global_batch = 8
    return config

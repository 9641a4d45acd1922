"""Trains on all days but the newest, which is the holdout."""

from pipeline.configs.retraining import base


def get_config() -> base.Config:
    config = base.get_config()
    config.name = "canteen"
    config.train.flags = ("--config.train.steps=150", "--config.model.members=2")
    config.gate.rule = "non_inferiority"  # newer, and not worse by more than the margin
    config.gate.margin = 0.02
    config.gate.floors = {"auc": 0.8}  # of the first model, which has no other to beat
    return config

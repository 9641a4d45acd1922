"""Retrains on the small spans of tests/shared/small_spans.py."""

from ml_collections import ConfigDict

from pipeline.configs.retraining import base

NAME = "trips"


def get_config() -> ConfigDict:
    config = base.get_config()
    config.name = NAME
    config.train.flags = (
        "--strategy=one_device",
        "--deterministic",
        "--config.train.epochs=3",
        "--config.global_batch=64",
        "--config.optimizer.learning_rate=0.01",
        "--config.optimizer.warmup_steps=2",
        "--config.train.checkpoint_every_steps=5",
    )
    config.gate.slices = ("company",)
    config.gate.least_slice = 50
    config.drift.hold = 0.0
    config.attempts = 1000
    config.infra.calls = 5
    config.infra.rounds = 1
    config.infra.median_ratio = config.infra.p99_ratio = 1000.0
    return config

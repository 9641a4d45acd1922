"""Retrains on the month of taxi trips: the config of tests.soak.month."""

from ml_collections import ConfigDict

from pipeline.configs.retraining import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.name = "taxi"
    config.spans.convert = ("--splits=train=0.9,validation=0.1",)
    config.window.last = 7
    config.train.config = "pipeline/configs/taxi_wide_deep.py"
    # The first cycle has 450 rows: steps of 32 rows, 20 epochs, are as many as a model of them needs.
    config.train.flags = (
        "--strategy=one_device",
        "--config.global_batch=32",
        "--config.train.epochs=20",
    )
    config.gate.slices = ("payment_type",)
    config.drift.ignore = ("trip_start_timestamp",)
    config.keep.versions = 40
    config.keep.cycles = 40
    config.infra.calls = 20
    config.infra.median_ratio = config.infra.p99_ratio = 10.0  # of a machine that does other things too
    return config

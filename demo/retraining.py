"""Retraining of `make demo-retrain`: a model of all days but the newest, evaluated on that one."""

from pipeline.configs.retraining import base


def get_config() -> base.Config:
    config = base.get_config()
    config.name = "tips"
    config.train.config = "pipeline/configs/tabular.py"
    config.train.flags = (  # small and short: a night takes half a minute
        "--config.global_batch=256",
        "--config.train.steps=100",
        "--config.optimizer.learning_rate=0.003",
        "--config.optimizer.warmup_part=0.1",
        "--config.evaluation.every_epochs=100",
    )
    config.gate.rule = "non_inferiority"  # one more day makes a model newer, and hardly better
    config.gate.margin = 0.02
    return config

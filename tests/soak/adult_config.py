"""Wide & deep on Adult, with all that a resumed run could get wrong.

That is dropout, micro-batches, averages of the weights, the best checkpoint, and an early end with the best
weights.
"""

from ml_collections import ConfigDict

from pipeline.configs import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.global_batch = 512
    config.model = ConfigDict(
        {"name": "wide_deep", "embedding": 8, "frequencies": 4, "hidden": (64,), "dropout": 0.3}
    )
    config.train.epochs = 3.0
    config.train.steps_per_loop = 4
    config.train.log_every_steps = 10
    config.train.checkpoint_every_steps = 7
    config.train.keep_best = "val_loss"
    config.train.micro_batches = 2
    config.optimizer.learning_rate = 1e-2
    config.optimizer.ema = 0.9
    # No later epoch is so much better than the first: its weights come back at the end of the second.
    config.callbacks = (early_stopping(min_delta=10.0),)
    return config


def early_stopping(**settings: float) -> dict:
    """Ends a run after an epoch that was not better, with the best weights."""
    usual = {"monitor": "val_loss", "patience": 1, "mode": "min", "restore_best_weights": True}
    return {"class_name": "EarlyStopping", "config": usual | settings}

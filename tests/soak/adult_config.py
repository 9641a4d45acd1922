"""Wide & deep on Adult, with all that a resumed run could get wrong: dropout, the best weights."""

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
    config.optimizer.learning_rate = 1e-2
    config.callbacks = (
        {
            "class_name": "EarlyStopping",
            "config": {"monitor": "val_loss", "patience": 1, "mode": "min", "restore_best_weights": True},
        },
    )
    return config

"""Configs of the runs that `kill` kills: `--config=tests/soak/training_config.py:NAME`.

They have all that a resumed run could get wrong: dropout, micro-batches, averages of the weights, the best
checkpoint, and an early end with the best weights.
"""

from ml_collections import ConfigDict

from pipeline.configs import base

MOVED = {"crop_area": (0.3, 1.0), "flip": True, "rotate_degrees": 15.0, "brightness": 0.3, "hue": 0.1}
MIXED = {"mixup": 0.4, "cutmix": 1.0}
SMALL_RESNET = {"name": "resnet", "widths": (4,), "blocks_per_stage": 1}


def get_config(name: str) -> ConfigDict:
    config = base.get_config()
    config.train.steps_per_loop = 4
    config.train.log_every_steps = 10
    config.train.micro_batches = 2
    config.optimizer.learning_rate = 1e-2
    config.optimizer.ema = 0.9
    if name in ("adult", "mnist", "table"):
        _ended_early(config, name)
    else:
        _of_many_hosts(config, name)
    return config


def _ended_early(config: ConfigDict, name: str) -> None:
    config.global_batch = {"adult": 512, "mnist": 64, "table": 16}[name]
    config.model = ConfigDict(
        {"name": "wide_deep", "embedding": 8, "frequencies": 4, "hidden": (64,), "dropout": 0.3}
    )
    config.train.epochs = 2.0 if name == "table" else 3.0
    config.train.checkpoint_every_steps = 7
    config.train.keep_best = "val_loss"
    # No later epoch is so much better than the first: its weights come back at the end of the second.
    early = {
        "monitor": "val_loss",
        "patience": 1,
        "mode": "min",
        "restore_best_weights": True,
        "min_delta": 10.0,
    }
    if name == "mnist":  # a small ResNet on 5,000 images, 500 of them for validation
        config.model = ConfigDict(
            {"name": "resnet", "widths": (8, 16), "blocks_per_stage": 1, "stem_stride": 2, "dropout": 0.2}
        )
        config.augmentation.shift = 0.05
        config.train.split = "train[:4500]"
        config.evaluation.split = "train[4500:5000]"
        config.evaluation.final_split = "test[:500]"
        config.train.epochs = 1.5
        config.optimizer.learning_rate = 3e-3
        del early["min_delta"]
    config.callbacks = ({"class_name": "EarlyStopping", "config": early},)


def _of_many_hosts(config: ConfigDict, name: str) -> None:
    """A batch that can be parted; no dropout, whose masks are each replica's own."""
    config.global_batch = 16
    config.model = ConfigDict({"name": "wide_deep", "embedding": 2, "hidden": (8,), "dropout": 0.0})
    config.train.steps = 60
    config.train.checkpoint_every_steps = 12
    config.evaluation.every_epochs = 2
    if name == "elastic":
        config.global_batch = 48
        config.train.micro_batches = 1
        config.train.steps = 24
        config.train.checkpoint_every_steps = 5
    if name == "weighted":
        config.train.example_weights = "weight"
    if "images" in name:
        config.model = ConfigDict(SMALL_RESNET)
        config.augmentation.update(MOVED | (MIXED if name == "mixed_images" else {}))

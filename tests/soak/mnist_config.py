"""A small ResNet on 5,000 images of MNIST, 500 of them for validation: as on Adult, and with augmentation."""

from ml_collections import ConfigDict

from tests.soak import adult_config


def get_config() -> ConfigDict:
    config = adult_config.get_config()
    config.global_batch = 64
    config.model = ConfigDict(
        {"name": "resnet", "widths": (8, 16), "blocks_per_stage": 1, "stem_stride": 2, "dropout": 0.2}
    )
    config.augmentation.shift = 0.05
    config.train.split = "train[:4500]"
    config.evaluation.split = "train[4500:5000]"
    config.evaluation.final_split = "test[:500]"
    config.train.epochs = 1.5
    config.optimizer.learning_rate = 3e-3
    config.callbacks = (adult_config.early_stopping(),)
    return config

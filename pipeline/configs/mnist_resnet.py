r"""MNIST, 28x28 pixels, 60,000 + 10,000 images.

  python -m pipeline.train --config=pipeline/configs/mnist_resnet.py --dataset=data/mnist/1.0.0 \
      --workdir=runs/mnist --strategy=mirrored --logical_devices=2 --precision=mixed_bfloat16

Hardware: 2 CPU cores are enough; docs/measurements.md says how long it takes and how good it gets.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.get_config()
    config.global_batch = 128
    # The stem halves the image: a quarter of the work for 0.1% of accuracy.
    config.model = {"name": "resnet", "widths": (32, 64, 128), "blocks_per_stage": 1, "stem_stride": 2}
    config.augmentation.shift = 0.08
    config.augmentation.rotate_degrees = 10.0
    config.train.epochs = 12.0
    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 100
    config.optimizer.weight_decay = 0.05
    config.optimizer.ema = 0.998
    return config

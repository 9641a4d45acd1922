r"""Handwritten digits, 8x8 pixels, 1,797 of them: the demo.

  python -m pipeline.train --config=pipeline/configs/digits_resnet.py --dataset=data/digits/1.0.0 \
      --workdir=runs/digits

Hardware: 2 CPU cores are enough; docs/measurements.md says how long it takes and how good it gets.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.get_config()
    config.global_batch = 64
    config.model = {"name": "resnet", "widths": (32, 64), "blocks_per_stage": 1}
    config.augmentation.shift = 0.1
    config.augmentation.rotate_degrees = 10.0
    config.train.epochs = 25.0
    config.train.log_every_steps = 20
    config.evaluation.every_epochs = 5
    config.optimizer.warmup_steps = 100
    config.optimizer.learning_rate = 4e-3
    return config

r"""Adult (census income): is a person's income above 50,000 dollars a year?

  python -m pipeline.train --config=pipeline/configs/adult_wide_deep.py --dataset=data/adult/1.0.0 \
      --workdir=runs/adult

Hardware: 2 CPU cores are enough; docs/measurements.md says how long it takes and how good it gets.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.get_config()
    config.global_batch = 256
    config.model = {
        "name": "wide_deep",
        "embedding": 16,
        "frequencies": 8,
        "hidden": (256, 128),
        "dropout": 0.5,
    }
    config.train.epochs = 8.0
    config.optimizer.learning_rate = 1e-3
    config.optimizer.warmup_steps = 100
    config.optimizer.weight_decay = 1e-2
    return config

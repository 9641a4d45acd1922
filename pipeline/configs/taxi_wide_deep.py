r"""Chicago taxi trips: is the tip more than a fifth of the fare?

  python -m pipeline.train --config=pipeline/configs/taxi_wide_deep.py --dataset=data/taxi/1.0.0 \
      --workdir=runs/taxi

Hardware: 2 CPU cores are enough; docs/measurements.md says how long it takes and how good it gets.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.get_config()
    config.global_batch = 256
    config.model = {
        "name": "wide_deep",
        "embedding": 8,
        "frequencies": 8,
        "hidden": (128, 64),
        "dropout": 0.5,
    }
    config.train.epochs = 8.0
    config.optimizer.warmup_steps = 100
    config.optimizer.weight_decay = 1e-2
    return config

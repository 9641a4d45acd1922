r"""Any dataset of categories, and numbers, such as clicks on advertisements: DCN-V2, with large tables.

  python -m pipeline.train --config=pipeline/configs/clicks.py --dataset=DATASET --workdir=WORKDIR

Columns with many values are `hashed` in the schema, into as many `buckets` as memory allows. A large table is
updated by rows (docs/training.md, "Large tables").

Settings to try next: --config.model.interaction=dot --config.model.rank=32 --config.optimizer.name=adamw

Hardware: 2 CPU cores are enough; docs/training.md says how much memory large tables take.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {
        "name": "dcn",
        "embedding": 16,
        "interaction": "cross",
        "crosses": 2,
        "hidden": (256, 128),
        "dropout": 0.3,
    }
    config.optimizer.name = "adagrad"
    config.optimizer.learning_rate = 0.03
    config.optimizer.weight_decay = 0.0
    return config

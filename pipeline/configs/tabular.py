r"""Any dataset of numbers, categories and text: classification or regression; the data sets the sizes.

Batch, length and evaluations follow from the rows (docs/training.md, "Defaults by rules"); a value that is
named here or on the command line wins.

  python -m pipeline.train --config=pipeline/configs/tabular.py --dataset=DATASET --workdir=WORKDIR

Settings to try next: --config.model.hidden=512,256 --config.model.dropout=0.2 --config.train.epochs=20

Hardware: 2 CPU cores are enough.
"""

from pipeline.configs import base

# What --sweep=search tries.
SEARCH = (
    "config.optimizer.learning_rate=log(3e-4..1e-2);config.optimizer.weight_decay=log(1e-4..1e-1);"
    "config.model.dropout=0..0.5;config.model.embedding=4,8,16,32;"
    "config.model.hidden=(64,),(128,64),(256,128),(256,256)"
)


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {
        "name": "tabular",
        "embedding": 16,
        "bins": 48,
        "members": 0,  # by the rows
        "hidden": (128, 128),
        "dropout": 0.2,
    }
    config.optimizer.learning_rate = 3e-3
    config.optimizer.ema = 0.99
    config.optimizer.weight_decay = 1e-2
    return config

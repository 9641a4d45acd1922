r"""Any dataset of texts, such as reviews, messages and news: classification; the data set the sizes.

  python -m pipeline.train --config=pipeline/configs/text.py --dataset=DATASET --workdir=WORKDIR

A linear model of words, pairs of words and runs of characters, which `infer_schema` proposes where all inputs
are texts ("pairs" and "characters" in docs/dataset.md). Numbers and categories may stand beside the texts.

Settings to try next: --config.model.dropout=0.5 --config.optimizer.learning_rate=0.2 --config.train.epochs=40

Hardware: 2 CPU cores are enough.
"""

from pipeline.configs import base

# What --sweep=search tries.
SEARCH = "config.optimizer.learning_rate=log(3e-2..3e-1);config.model.dropout=0.3..0.9"


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {"name": "bag_of_ngrams", "dropout": 0.7}
    config.train.epochs = 20.0
    # Keras's own, for its first argument: where a sum of squares begins. The gradient of a rare id is some
    # 1e-4 in a batch of 256: beside 0.1, Keras's default, it would never count.
    config.optimizer.name = "Adagrad"
    config.optimizer.initial_accumulator_value = 1e-8
    config.optimizer.learning_rate = 0.1
    config.optimizer.schedule = "constant"
    config.optimizer.warmup_part = 0.0
    config.optimizer.weight_decay = 0.0
    return config

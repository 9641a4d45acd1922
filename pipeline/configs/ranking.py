r"""Any dataset whose rows are ranked within groups, such as the documents of a query.

  python -m beam_jobs.infer_schema --input=train.csv --label=relevance --group=query --output=schema.json
  python -m beam_jobs.convert --input=train.csv --schema=schema.json --output=data/queries/1.0.0
  python -m pipeline.train --config=pipeline/configs/ranking.py --dataset=data/queries/1.0.0 \
      --workdir=runs/queries

Hardware: 2 CPU cores are enough.
"""

from pipeline.configs import base


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

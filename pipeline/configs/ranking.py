r"""Any dataset whose rows are ranked within groups, such as the documents of a query.

  python -m beam_jobs.infer_schema --input=train.csv --label=relevance --group=query --output=schema.json
  python -m beam_jobs.convert --input=train.csv --schema=schema.json --output=data/queries/1.0.0
  python -m pipeline.train --config=pipeline/configs/ranking.py --dataset=data/queries/1.0.0 \
      --workdir=runs/queries

Batch, length and evaluations follow from the groups (docs/training.md, "Defaults by rules"). docs/ranking.md
has the options.

Hardware: 2 CPU cores are enough. `python -m benchmarks.ranking` draws queries of 5 to 30 documents: NDCG@10
.9408 with 400 queries to learn from and .9381 with 2,400, where LightGBM's lambdarank has .9303 and .9362,
and the noiseless order .9517 and .9432. Each run takes a few CPU minutes.
"""

from pipeline.configs import base, tabular


def get_config() -> base.Config:
    config = tabular.get_config()
    config.evaluation.global_batch = 64  # groups, which may be long
    return config

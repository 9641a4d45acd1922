r"""Any dataset of chosen items: two towers, which score all items for a query.

  python -m beam_jobs.infer_schema --input=train.jsonl --label=item --task=retrieval --output=schema.json
  python -m beam_jobs.convert --input=train=train.jsonl --input=test=test.jsonl --schema=schema.json \
      --output=data/choices/1.0.0
  python -m pipeline.train --config=pipeline/configs/retrieval.py --dataset=data/choices/1.0.0 \
      --workdir=runs/choices

Batch, length and evaluations follow from the rows (docs/training.md, "Defaults by rules").

--config.model.name=sequence_recommender learns from the order of a list of items. docs/retrieval.md has the
options.

Hardware: 2 CPU cores are enough for thousands of items. `python -m benchmarks.retrieval` draws 60,000 choices
of 300 users among 1,000 items from known probabilities: recall@10 .545, where .554 is the best possible,
trained against the items of the batch (.368 without the correction, .542 against all items). In
30,000 walks among 100 items, sequence_recommender finds .640, where .683 is possible, and two_tower .335. All
of it takes 140 CPU seconds.
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.by_rules()
    config.model = {
        "name": "two_tower",
        "size": 32,
        "embedding": 32,
        "frequencies": 0,
        "hidden": (64,),
        "dropout": 0.0,
        "k": 10,  # items that are answered
        "negatives": "auto",  # all: each item; batch: the items of the batch; auto: all of up to 5,000
        "log_q": True,  # corrects the scores of a batch's items by how often they are drawn
        "temperature": 0.0,  # 0: dot products; above 0: cosines by it
    }
    return config

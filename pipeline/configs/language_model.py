r"""Any dataset of packed tokens: a causal transformer that predicts the next token; the data set the sizes.

  python -m beam_jobs.infer_schema --input=corpus.txt --tokenizer=bytes --sequence_length=128 \
      --output=schema.json
  python -m beam_jobs.convert --input=corpus.txt --tokenizer=bytes --sequence_length=128 \
      --schema=schema.json --output=data/corpus/1.0.0 --layout=blocks
  python -m pipeline.train --config=pipeline/configs/language_model.py --dataset=data/corpus/1.0.0 \
      --workdir=runs/corpus
  python -m pipeline.generate --model=runs/corpus --prompt="Once upon"

Where there is more time: --config.model.width=192 --config.model.heads=6 --config.model.key_value_heads=2
--config.model.depth=5 --config.model.dropout=0.1 --config.train.epochs=5 --config.global_batch=16

Hardware: 2 CPU cores for a corpus of a megabyte or two; a GPU for more. Tiny Shakespeare (1.1 MB as bytes,
one document, the last tenth held out, rows of 128, a token from those before it in its row) ends at
1.574 nats, 2.27 bits a byte, in 186 CPU seconds at most, start and evaluation included: mean of seeds 0, 1
and 2 (1.578, 1.569, 1.576), one thread (TF_NUM_INTRAOP_THREADS=1), AMD EPYC. With the flags above: 1.498
nats in 9 CPU minutes (seed 0).
"""

from pipeline.configs import base


def get_config() -> base.Config:
    config = base.get_config()
    config.global_batch = 8
    config.model = {
        "name": "transformer",
        "width": 96,
        "depth": 4,
        "heads": 3,
        "key_value_heads": 1,
        "expansion": 4,
        "dropout": 0.0,
    }
    config.train.epochs = 1.5
    config.optimizer.name = "muon"  # for the kernels of any model; embeddings and scales take AdamW's updates
    config.optimizer.learning_rate = 1e-2
    config.optimizer.schedule = "linear"
    config.optimizer.warmup_part = 0.05
    config.optimizer.weight_decay = 0.0
    config.evaluation.global_batch = 64
    return config

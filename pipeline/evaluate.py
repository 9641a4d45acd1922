"""Evaluates an exported model on one split of a dataset, every example exactly once.

  python -m pipeline.evaluate --model=exports/census/1 --dataset=data/census/1.0.0 --json=test.json

Examples go through the exported `serving_default` signature, so what is measured is what is served.
Classification gives loss, accuracy, a confusion matrix and, for two classes, the AUC and ROC curve;
regression MAE, RMSE and R².
"""

import pathlib
from collections.abc import Sequence

from absl import app, flags

from pipeline import quiet  # noqa: F401 - before TensorFlow
from pipeline.data import loss_budget, manifest, whole_files
from pipeline.data.damage import listed
from pipeline.data.errors import answers_bad_input
from pipeline.release import scoring

_MODEL = flags.DEFINE_string("model", None, "Directory written by pipeline.export.", required=True)
_DATASET = flags.DEFINE_string("dataset", None, "Directory written by beam_jobs.convert.", required=True)
_SPLIT = flags.DEFINE_string("split", "test", "Split to evaluate on.")
_BATCH = flags.DEFINE_integer(
    "batch", 256, "Examples at a time: changes speed and memory, not the result.", lower_bound=1
)
_MAX_CORRUPT_RECORDS = flags.DEFINE_integer(
    "max_corrupt_records", 0, "Damaged records that may be left out; they are listed.", lower_bound=0
)
_JSON = flags.DEFINE_string("json", None, "File to write all metrics to, as JSON.")


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    result = scoring.score(
        pathlib.Path(_MODEL.value),
        manifest.open_dataset(_DATASET.value),
        split=_SPLIT.value,
        batch=_BATCH.value,
        max_corrupt_records=_MAX_CORRUPT_RECORDS.value,
    )
    if _JSON.value:
        whole_files.write_json(_JSON.value, result)
    print(f"{_MODEL.value} on {result['split']} of {_DATASET.value}: {result['examples']:,} examples")
    damage = loss_budget.from_json(result["damaged"])
    if damage:
        print(f"left out: {listed(damage)}")
    for name, value in result.items():
        if isinstance(value, float):
            print(f"  {name:16} {value:.4f}")


if __name__ == "__main__":
    app.run(main)

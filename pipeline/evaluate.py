"""Evaluates an exported model on one split of a dataset, every example exactly once.

  python -m pipeline.evaluate --model=exports/census/1 --dataset=data/census/1.0.0 --json=test.json

Examples go through the exported `serving_default` signature, so what is measured is what is served.
Classification gives loss, accuracy, a confusion matrix (with more than 12 classes, the pairs confused most
often) and, for two classes, the AUC; regression MAE, RMSE and R². --json also has the whole matrix of up to
200 classes, and the ROC curve. Beside an accuracy stands Wilson's interval, for rows that do not depend on
each other.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import re
from collections.abc import Mapping, Sequence

from absl import flags

from pipeline.base import files
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.data.dataset import records, selection, window
from pipeline.report import terminal
from pipeline.report.section import Section

_MODEL = flags.DEFINE_string("model", None, "DIRECTORY: the model, as pipeline.export wrote it.")
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    None,
    "DIRECTORY: the dataset, as beam_jobs.convert wrote it. Several, or a glob in quotes, are read as one.",
)
_SPLIT = flags.DEFINE_string("split", "test", "SPLIT: what to evaluate on.")
_EXAMPLE_WEIGHTS = flags.DEFINE_string(
    "example_weights",
    "",
    "FEATURE: a numeric feature that weighs the examples; metrics are then given without and with it.",
)
_METRICS = flags.DEFINE_multi_string(
    "metrics",
    [],
    "NAME,…: more metrics, such as f1, precision@0.3, ece or keras.metrics:FBetaScore(threshold=0.5, "
    "average='macro'). config.evaluation.metrics takes the same names.",
)
_BATCH = flags.DEFINE_integer(
    "batch",
    256,
    "Examples in one call of the model. It changes speed and memory, not the result.",
    lower_bound=1,
)
_MAX_CORRUPT_RECORDS = flags.DEFINE_integer(
    "max_corrupt_records", 0, "Damaged records that may be left out. They are listed.", lower_bound=0
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write all metrics to it, as JSON.")

_SHARES, _TASKS_OF_ROWS = ("accuracy", "top_5_accuracy"), ("binary", "multiclass", "multilabel")
_CONFIDENCE = 0.95
_COMMA = re.compile(r",(?![^(]*\))")  # between names, not between the arguments of one

COMMAND = Command(
    name="pipeline.evaluate",
    description=__doc__,
    required=(_MODEL, _DATASET),
    flags={
        "What is evaluated": (_MODEL, _DATASET, _SPLIT, _EXAMPLE_WEIGHTS, _METRICS),
        "Running": (_BATCH, _MAX_CORRUPT_RECORDS, _JSON),
    },
)


def main(argv: Sequence[str]) -> None:
    del argv
    flags_lib.check_local_files({"json": _JSON.value})
    dataset = window.open_window(_DATASET.value)
    selection.select(dataset, _SPLIT.value)
    model = flags_lib.local_directory("model", _MODEL.value)
    records.open_export(model)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.data.integrity import damage as damage_lib
    from pipeline.data.integrity.damage import listed
    from pipeline.exporting import scoring
    from pipeline.training.report.findings import verdict
    from pipeline.training.report.reporter import number
    from pipeline.training.report.results import confusion_table

    result = scoring.score(
        model,
        dataset,
        split=_SPLIT.value,
        batch=_BATCH.value,
        max_corrupt_records=_MAX_CORRUPT_RECORDS.value,
        weighted_by=_EXAMPLE_WEIGHTS.value,
        metrics=[each.strip() for names in _METRICS.value for each in _COMMA.split(names)],
    )
    if _JSON.value:
        files.write_json(_JSON.value, result)
    datasets = ", ".join(_DATASET.value)
    print(f"{_MODEL.value} on {result['split']} of {datasets}: {result['examples']:,} examples")
    damage = damage_lib.damage_from_json(result["damaged"])
    if damage:
        print(f"left out: {listed(damage)}")
    numbers = {name: value for name, value in result.items() if isinstance(value, float)}
    for name, value in numbers.items():
        print(f"  {name:{max(16, *map(len, numbers))}} {number(value)}{_interval(name, result)}")
    if table := confusion_table(result):
        print(terminal.render([Section(parts=[table])]))
    for finding in verdict(result):
        print(terminal.broken(f"note: {finding}"))


def _interval(name: str, result: Mapping) -> str:
    """Where chance may have moved a share of right rows; empty for other numbers, which need the rows."""
    from pipeline.gate.statistics.shares import Share

    if name not in _SHARES or result["task"] not in _TASKS_OF_ROWS:
        return ""
    rows = result["examples"]
    low, high = Share(right=round(result[name] * rows), units=rows).interval(_CONFIDENCE)
    return f"  {_CONFIDENCE:.0%} interval {low:.4f} … {high:.4f}"


if __name__ == "__main__":
    run_command(main, COMMAND)

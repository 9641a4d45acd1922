r"""The untouched tabular config beside gradient boosting and a linear model, on 19 tables, in 3 splits each.

  PYTHONPATH=FOLDER python -m benchmarks.tables --results=build/benchmark/tables.jsonl [--sets=wine,cars]

benchmarks/tabular/sets.py says what the packages in FOLDER are; a set whose data are not there is left out,
with a note. Each split (64% training, 16% validation, 20% test) goes through infer_schema, convert and train
as a person would type them, and is one line of the results; a line that is there is not made again. Train
itself fits the baselines, on the same rows. The table of means over splits is also written beside the
results, as .md. Exit code 1 where a mean misses a target: gradient boosting − 0.005 (AUC, accuracy) or 2%
(RMSE), the linear model − 0.01 or 3%.

Hardware: any. Duration: 40 CPU seconds a small table and split, some minutes for the three large ones.
"""

import functools
import os
import pathlib
from collections.abc import Sequence

from absl import app, flags

from benchmarks.tabular.comparison import markdown, measure, measured, summary
from benchmarks.tabular.sets import sets

_RESULTS = flags.DEFINE_string(
    "results", "build/benchmark/tables.jsonl", "File of the figures, one line a run."
)
_SETS = flags.DEFINE_list("sets", [], "Only these tables.")
_SPLITS = flags.DEFINE_integer("splits", 3, "Splits of each table.", 1)
_DATA = flags.DEFINE_string("data", os.environ.get("PENSTOCK_DATA", ""), "Folder of adult, taxi and others.")
_FLAGS = flags.DEFINE_list("train_flags", [], "Flags for train besides the config: then it is not untouched.")


def main(argv: Sequence[str]) -> int:
    del argv
    results, data = pathlib.Path(_RESULTS.value), pathlib.Path(_DATA.value)
    chosen = [table for table in sets() if not _SETS.value or table.name in _SETS.value]
    measure_one = functools.partial(measure, data=data, flags_of_train=_FLAGS.value)
    rows = list(summary(measured(chosen, results, splits=_SPLITS.value, measure_one=measure_one)))
    table_text = markdown(rows)
    results.with_suffix(".md").write_text(table_text)
    print(table_text)
    return not all(row["as_boosting"] and row["as_linear"] for row in rows)


if __name__ == "__main__":
    app.run(main)

r"""What reading a window of 30 spans as one costs beside one dataset of the same rows; in CPU time.

  python -m benchmarks.window --scratch=build/benchmark/window [--rows=600000] [--spans=30] [--rounds=15]

Prints, of both layouts and of every order in which they are read, CPU µs a row: from the files to the rows in
their order, which nothing has parsed yet, so that nothing else hides the difference. Each round measures the
two one right after the other, and who is first alternates: the ratio is the median of the rounds' ratios, as
the machine's load meets both. The exit code is 1 where a window costs more than 1.1 times as much.

Hardware: any, best with nothing else running. Duration: on 2 cores 2 minutes, and 3 for the data.
"""

import os
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence

from absl import app, flags

from benchmarks.reading import spans
from benchmarks.reading.window_cost import CASES, Case, Costs, verdict
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.base.errors import answers_bad_input

import tensorflow as tf  # isort: skip

from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.window import open_window
from pipeline.data.reading import stream, windows
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share

_SCRATCH = flags.DEFINE_string("scratch", "build/benchmark/window", "Directory for the data.")
_ROWS = flags.DEFINE_integer("rows", 600_000, "Records in all.", 1000)
_SPANS = flags.DEFINE_integer("spans", 30, "Datasets of the window.", 2)
_ROUNDS = flags.DEFINE_integer("rounds", 15, "How often each is measured.", 1)

BATCH, TOGETHER = 1024, 16  # global batches that training reads at once
PASSES = {"rows": 1, "blocks": 3}  # over all rows, in a measurement: blocks cost a tenth


def _rows(dataset: Dataset, case: Case) -> tf.data.Dataset:
    """What training reads of `train`: elements of rows, at least one epoch of them."""
    selection = select(dataset, "train")
    if case.order == "stored":
        return windows.stored_rows(selection).repeat(PASSES[case.layout])
    plan = plan_reading(selection, share=Share(global_batch=BATCH), seed=1, shuffle=case.order)
    return stream.read(plan, batches=TOGETHER)


def _cost(elements: tf.data.Dataset, rows: int) -> float:
    """CPU µs of a row, the mean of at least `rows` rows."""
    started, read = time.process_time(), 0
    for _, some in elements:
        read += some.shape[0]
        if read >= rows:
            break
    return 1e6 * (time.process_time() - started) / read


def _measured(subjects: Mapping[Case, Sequence[tf.data.Dataset]]) -> dict[Case, Costs]:
    """What both of each case cost, one right after the other."""
    found: dict[Case, list[tuple[float, float]]] = {case: [] for case in subjects}
    for number in range(-1, _ROUNDS.value):  # the first one finds nothing warm, and is left out
        for case, (one, many) in subjects.items():
            rows = PASSES[case.layout] * _ROWS.value
            if number % 2:
                pair = tuple(reversed((_cost(many, rows), _cost(one, rows))))
            else:
                pair = _cost(one, rows), _cost(many, rows)
            if number >= 0:
                found[case].append(pair)
        print(f"round {number + 1} of {_ROUNDS.value}", file=sys.stderr, flush=True)
    return found


def _subjects(scratch: pathlib.Path) -> dict[Case, Sequence[tf.data.Dataset]]:
    """One dataset, and the window of the same rows."""
    found = {}
    for layout in spans.LAYOUTS:
        whole, glob = spans.written(scratch, rows=_ROWS.value, spans=_SPANS.value, layout=layout)
        both = manifest.open_dataset(whole), open_window([glob])
        found |= {case: [_rows(each, case) for each in both] for case in CASES if case.layout == layout}
    return found


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    table, held = verdict(_measured(_subjects(pathlib.Path(_SCRATCH.value))))
    print(table)
    print(f"{_SPANS.value} spans of {_ROWS.value // _SPANS.value:,} rows, load {os.getloadavg()[0]:.1f}")
    return not held


if __name__ == "__main__":
    app.run(main)

r"""What a shuffled order and a resume cost, on a million small records.

  python -m benchmarks.position --scratch=build/benchmark/small

Prints, medians of interleaved rounds: CPU of reading `rows` in shuffled windows over reading the files one
after the other; the bytes of a position; and how much longer the first batch takes from positions all over an
epoch than from its start.
"""

import json
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence

from absl import app, flags

from benchmarks.reading import small_records
from pipeline.base.errors import answers_bad_input

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for the data.", required=True)
_ROWS = flags.DEFINE_integer("rows", 1 << 20, "Records.", 1000)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "How often each is measured.", 1)

_BATCH = 1024
_FRACTIONS = (0.001, 0.25, 0.5, 0.75, 0.999)  # of an epoch


def _cpu_us(rows: int, read: Callable[[], object]) -> float:
    started = time.process_time()
    read()
    return (time.process_time() - started) / rows * 1e6


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    directory = small_records.written(pathlib.Path(_SCRATCH.value), _ROWS.value)
    import tensorflow as tf

    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.data.dataset import manifest
    from pipeline.data.dataset.selection import select
    from pipeline.data.reading import windows

    selection = select(manifest.open_dataset(directory), "train")
    steps = selection.rows // _BATCH

    def first_batch(position: int) -> float:
        started = time.perf_counter()
        next(iter(windows.window_rows(selection, seed=1, position=position).rebatch(_BATCH)))
        return (time.perf_counter() - started) * 1e3

    def count(batches: tf.data.Dataset) -> Callable[[], object]:
        return lambda: batches.reduce(0, lambda done, *_: done + 1)

    shuffled = windows.window_rows(selection, seed=1, position=0).rebatch(_BATCH).take(steps)
    stored = tf.data.TFRecordDataset(selection.shards.paths, buffer_size=1 << 20).batch(_BATCH)
    first_batch(0)
    costs, waits = {"stored": [], "shuffled": []}, {fraction: [] for fraction in (0.0, *_FRACTIONS)}
    for _ in range(_ROUNDS.value):
        costs["stored"].append(_cpu_us(selection.rows, count(stored)))
        costs["shuffled"].append(_cpu_us(selection.rows, count(shuffled)))
        for fraction, found in waits.items():
            found.append(first_batch(int(fraction * selection.rows)))
    in_order, mixed = (statistics.median(costs[name]) for name in ("stored", "shuffled"))
    fresh, *resumed = (statistics.median(found) for found in waits.values())
    position = len(json.dumps({"seed": 1, "step": steps - 1}))
    print(f"stored order {in_order:.2f} CPU µs a record, shuffled {mixed:.2f}: {mixed / in_order:.2f}x")
    print(f"position     {position} bytes")
    print(f"first batch  {fresh:.0f} ms at the start; elsewhere {max(resumed) - fresh:+.0f} ms at most")


if __name__ == "__main__":
    app.run(main)

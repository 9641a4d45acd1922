r"""Compares a host among 64 that read together with a single host: what it reads, and what that costs.

  python -m benchmarks.hosts --scratch=build/benchmark/small [--rows=4194304] [--hosts=64] [--rounds=3]

Each way of reading small records runs up to prepared batches, as a single host and as some of many hosts,
which this process plays one after the other. A host has the same batch alone and among many: a smaller batch
costs more for an example anyway. Prints medians of interleaved rounds:

  one, each   CPU µs an example that the host trains on, of one host and of one of many
  ratio       each / one; the exit code is 1 where it is above 1.3
  bytes       that a host of many reads for an example, over those that its record or its share of a block
              takes; 1 at 1.2 again. A mapped file is not read.

Before that, the first batches of 2, 4, 8, 16 and all hosts are compared bit for bit with those of one.

Hardware: Linux, any. Duration: five minutes on 2 cores, and eight for the data.
"""

import dataclasses
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
from absl import app, flags

from benchmarks.reading import small_records
from benchmarks.reading.host_costs import CASES, Case, Measured, played, verdict
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.base.errors import answers_bad_input

import tensorflow as tf  # isort: skip

from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.input.batches import training_batches
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading

_SCRATCH = flags.DEFINE_string("scratch", "build/benchmark/small", "Directory for the data.")
_ROWS = flags.DEFINE_integer("rows", 1 << 22, "Records.", 1 << 16)
_HOSTS = flags.DEFINE_integer("hosts", 64, "Hosts that are played.", 2)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "How often each is measured.", 1)
_BATCH = flags.DEFINE_integer("batch", 256, "Examples of a host's batch.", 1)

COMPARED = 3  # batches


class _Reader:
    def __init__(self, scratch: pathlib.Path, case: Case) -> None:
        directory = small_records.written(scratch, _ROWS.value, layout=case.layout)
        dataset = manifest.open_dataset(directory)
        # Compared once for all, as a host that maps the files does at its start.
        self._selection = dataclasses.replace(select(dataset, "train"), is_checked=True)
        self._preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
        self._case = case

    def batches(self, *, hosts: int, host: int, global_batch: int) -> tf.data.Dataset:
        share = Share(global_batch=global_batch, replicas=hosts, shard_count=hosts, shard_index=host)
        plan = plan_reading(self._selection, share=share, seed=1, shuffle=self._case.shuffle)
        return training_batches(plan, self._preprocess)

    def measured(self, *, hosts: int, host: int) -> Measured:
        """Measures one host, after its first batches."""
        batch = _BATCH.value
        each = max(1, self._case.examples // batch)
        batches = iter(self.batches(hosts=hosts, host=host, global_batch=batch * hosts))
        _take(batches, tf.constant(max(1, each // 4)))
        started, before = time.process_time(), _bytes_read()
        _take(batches, tf.constant(each))
        cpu, read = time.process_time() - started, _bytes_read() - before
        return Measured(
            cpu_us=1e6 * cpu / (each * batch), bytes=read / (each * batch * _row_bytes(self._selection))
        )

    def require_equal(self, hosts: int) -> None:
        """Raises AssertionError unless the batches are those of one host."""
        all_ = _BATCH.value * _HOSTS.value
        whole = list(self.batches(hosts=1, host=0, global_batch=all_).take(COMPARED).as_numpy_iterator())
        size = all_ // hosts
        for host in played(hosts):
            run = slice(host * size, (host + 1) * size)
            of_host = self.batches(hosts=hosts, host=host, global_batch=all_).take(COMPARED)
            for batch, found in zip(whole, of_host, strict=True):
                expected = tf.nest.map_structure(lambda each, run=run: each[run], batch)
                tf.nest.map_structure(np.testing.assert_array_equal, found, expected)


@tf.function
def _take(batches: Iterator, count: tf.Tensor) -> None:
    """Takes `count` batches, as a loop of training steps does."""
    for _ in tf.range(count):
        next(batches)


def _row_bytes(selection: Selection) -> float:
    return selection.shards.mean_bytes / selection.shards.rows_in_record


def _bytes_read() -> int:
    fields = dict(line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    hosts = _HOSTS.value
    readers = {case: _Reader(pathlib.Path(_SCRATCH.value), case) for case in CASES}
    for case, reader in readers.items():
        for some in (*(count for count in (2, 4, 8, 16) if count < hosts), hosts):
            reader.require_equal(some)
        print(f"{case.name}: the same batches on any of these hosts", file=sys.stderr, flush=True)
    found: dict[Case, list[tuple[Measured, Measured]]] = {case: [] for case in CASES}
    for number in range(_ROUNDS.value):
        for case, reader in readers.items():
            alone = reader.measured(hosts=1, host=0)
            each = [reader.measured(hosts=hosts, host=host) for host in played(hosts)]
            mean = Measured(
                cpu_us=statistics.mean(one.cpu_us for one in each),
                bytes=statistics.mean(one.bytes for one in each),
            )
            found[case].append((alone, mean))
        print(f"round {number + 1} of {_ROUNDS.value}", file=sys.stderr, flush=True)
    table, held = verdict(found)
    print(table)
    print(f"1 and {hosts} hosts of {_BATCH.value:,} examples a step, {_ROWS.value:,} rows")
    return not held


if __name__ == "__main__":
    app.run(main)

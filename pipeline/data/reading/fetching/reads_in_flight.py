"""How long a read of a dataset's files takes, and how many reads are in flight because of it.

Reading from the page cache takes microseconds, from a disk or over a network milliseconds: then many reads
wait side by side. The order of the records does not depend on it.
"""

import contextlib
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.data.dataset.record_table import Shards

MOST_READS = 512  # each waits in a thread of its own
MOST_BYTES = 256 << 20  # 256 MiB that the records in flight take
READS_PER_S = 40_000  # that a host can use: TensorFlow reads twice for a record, which takes a core 100 µs
_QUICK_S = 250e-6  # below, waiting costs less than handing records from thread to thread
_PROBES = 16
_DISTURBED = 2  # slowest probes, which do not count: something else ran meanwhile
_PATIENCE_S = 0.5
_BYTES = 4 << 10  # 4 KiB

Read = Callable[[str, int], None]  # some bytes of a file, from an offset on


@dataclasses.dataclass(frozen=True, kw_only=True)
class InFlight:
    """Reads of a dataset."""

    latency_s: float  # mean time that one took
    reads: int  # at once; 1: there is nothing to wait for

    @property
    def is_slow(self) -> bool:
        return self.reads > 1

    def records(self, mean_bytes: float) -> int:
        """Records of this mean size that are read at once."""
        return max(1, min(self.reads, int(MOST_BYTES / mean_bytes)))

    def records_each(self, mean_bytes: float) -> int:
        """Records of this mean size that one call may read in turn, where so many calls run at once."""
        return max(1, int(MOST_BYTES / (self.reads * mean_bytes)))


def of(shards: Shards) -> InFlight:
    """Measures a few reads of the files as they are now: they may be in the page cache, or not."""
    took = latency(shards.paths, shards.bytes.tolist(), read=_read, clock=time.perf_counter)
    return for_latency(took)


def for_latency(latency_s: float) -> InFlight:
    """What is in flight where a read takes so long."""
    needed = -(-latency_s * READS_PER_S // 1) if latency_s >= _QUICK_S else 1
    return InFlight(latency_s=latency_s, reads=int(min(needed, MOST_READS)))


def latency(paths: Sequence[str], sizes: Sequence[int], *, read: Read, clock: Callable[[], float]) -> float:
    """Mean seconds that a read takes, at places spread over the files.

    Args:
      clock: gives seconds.
    """
    took = []
    for number in range(_PROBES):
        shard = number * len(paths) // _PROBES
        offset = int((number * 0.618) % 1 * max(0, sizes[shard] - _BYTES))
        began = clock()
        with contextlib.suppress(OSError, tf.errors.OpError):  # whoever reads there next tells of it
            read(paths[shard], offset)
        took.append(clock() - began)
        if sum(took) > _PATIENCE_S:
            break
    return statistics.mean(sorted(took)[: -_DISTURBED or None] if len(took) > 2 * _DISTURBED else took)


def _read(path: str, offset: int) -> None:
    if "://" in path:
        with tf.io.gfile.GFile(path, "rb") as file:
            file.seek(offset)
            file.read(1)
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.pread(file, _BYTES, offset)
    finally:
        os.close(file)

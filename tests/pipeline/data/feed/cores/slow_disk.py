"""The certificate of a pipeline whose disk is slow; the page cache hides it from whoever does not ask."""

import pathlib

import numpy as np
import tensorflow as tf

from pipeline.feed import measure
from pipeline.feed.certificate import Certificate, Demand, copy_to, issue
from pipeline.feed.measure import Cold
from pipeline.feed.scaling import HERE
from tests.pipeline.data.feed.cores.throttled import throttled
from tests.pipeline.data.feed.pipelines import BATCH, raw, write_records

BYTES_PER_S = 4 << 20
RECORDS, RECORD_BYTES = 4_096, 4 << 10


def of_slow_disk(folder: pathlib.Path, *, seconds: float) -> Certificate:
    """Of single records of 4 KiB from a disk that gives 4 MiB a second, in part in the page cache.

    Steps take twice what the page cache gives, so whoever asks that alone would be told that they are fed.

    Raises:
      OSError: the disk cannot be throttled here.
    """
    noise = np.random.default_rng(0).integers(0, 256, (RECORDS, RECORD_BYTES), np.uint8)
    path = write_records(folder, [row.tobytes() for row in noise])
    recipe = raw(lambda: tf.data.TFRecordDataset(path, buffer_size=256 << 10))

    def certify(step_ms: float | None, cold: Cold | None) -> Certificate:
        demand = Demand(global_batch=BATCH, slice=HERE, step_ms=step_ms)
        files = measure.residency([path])
        return issue(recipe, demand, copy=copy_to("CPU:0"), seconds=seconds, files=files, cold_files=cold)

    step_ms = 2 * certify(None, None).shortest_step_ms
    with throttled(folder, bytes_per_s=BYTES_PER_S):
        return certify(step_ms, Cold(paths=[path], examples=RECORDS))

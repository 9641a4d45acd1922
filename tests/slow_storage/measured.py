"""Reads a dataset in a process of its own, under whatever is preloaded: `measured DIRECTORY RECORDS`.

Prints, as JSON, the digest of so many records and their positions, and the records a second after them.
"""

import hashlib
import json
import pathlib
import sys
import time

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.reading import fetch, stream
from pipeline.data.reading.fetch import READY
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share, rebatched

_SECONDS = 15.0  # the first ones are slower, as hundreds of threads begin
_BATCH = 500


def main(directory: str, records: int) -> None:
    selection = select(open_dataset(pathlib.Path(directory)), "train")
    plan = plan_reading(selection, share=Share(global_batch=_BATCH), seed=1)
    # A window, as a training holds its batches, for the stream to fill.
    batches = iter(rebatched(stream.read(plan, batches=16), _BATCH).prefetch(READY))
    digest = hashlib.sha256()
    for _ in range(-(-records // _BATCH)):
        positions, rows = next(batches)
        digest.update(positions.numpy().tobytes() + b"".join(rows.numpy().tolist()))
    began, cpu, count = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - began) < _SECONDS:
        next(batches)
        count += _BATCH
    in_flight = fetch.reads_in_flight(selection.shards)
    found = {
        "digest": digest.hexdigest(),
        "records/s": count / took,
        "CPU µs": 1e6 * (time.process_time() - cpu) / count,
        "reads": in_flight.reads,
        "ms": 1e3 * in_flight.latency_s,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

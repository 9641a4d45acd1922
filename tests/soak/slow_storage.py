"""Reads records of 30 KB and of 346 B as they are, with 10 ms a read, and with every hundredth read failing.

  python -m tests.soak.slow_storage

A rate has a bound, the order is the same, and failing reads are named with their file. Needs a C compiler:
slow_reads.c is preloaded into the process that reads.
"""

import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.reading import fetch, stream
from pipeline.data.reading.fetch import READY
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share, rebatched
from pipeline.data.schema.feature_types import Categorical, Label, Tensor
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset
from tests.soak import harness
from tests.soak.harness import Row, Soak

_SOURCE = pathlib.Path(__file__).with_name("slow_reads.c")
SIZES = {"large": (7_480, 2_000), "small": (75, 100_000)}  # numbers in a row, rows
_BOUNDS = {"large": 5_000, "small": 100_000}  # records a second
_COMPARED = {"large": 5_000, "small": 250_000}  # records, more than two epochs
_SLOW = {"SLOW_US": "10000"}
_WAYS = {"as it is": {}, "10 ms a read": _SLOW, "and 1% fail": {**_SLOW, "SLOW_FAIL_EVERY": "100"}}
_SECONDS = 15.0  # the first ones are slower, as hundreds of threads begin
_BATCH = 500


def faults(soak: Soak, *, name: str) -> Iterator[str]:
    library, directory = soak.folder / "slow_reads.so", soak.folder / name
    compile_ = [shutil.which("cc"), "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(compile_, check=True)
    _write(directory, *SIZES[name])
    digests = set()
    for way, settings in _WAYS.items():
        slowed = {"LD_PRELOAD": str(library), "SLOW_FOLDER": str(directory), **settings}
        command = [sys.executable, "-m", "tests.soak.slow_storage", str(directory), str(_COMPARED[name])]
        done = subprocess.run(
            command, env={**os.environ, **slowed}, check=True, capture_output=True, text=True
        )
        named = [line for line in done.stderr.splitlines() if re.search(r"a read failed.* at byte \d", line)]
        figures = json.loads(done.stdout.splitlines()[-1])
        digests.add(figures.pop("digest"))
        print(f"{name}, {way}: {figures}, {len(named)} failed reads are named", flush=True)
        if figures["records/s"] < _BOUNDS[name]:
            yield f"{way}: slower than {_BOUNDS[name]:,} records a second"
        if bool(named) != ("fail" in way):
            yield f"{way}: {len(named)} failed reads are named"
    if len(digests) > 1:
        yield "the records or their order are not the same"


def _write(directory: pathlib.Path, numbers: int, rows: int) -> None:
    """Writes rows that differ by their ids alone."""
    x = np.random.default_rng(0).random(numbers, np.float32).tolist()
    features = (
        Categorical(name="id", encoding="integer", size=1 << 20),
        Tensor(name="x", dimensions=(numbers,)),
        Label(name="y", classes=("no", "yes")),
    )
    rows_ = [{"id": id_, "x": x, "y": id_ % 2} for id_ in range(rows)]
    write_dataset(directory, Schema(name="slow", features=features), {"train": rows_}, shards=4)


def measure(directory: str, records: int) -> None:
    """Prints the digest of so many records and their positions, and the records a second after them."""
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


ROWS = tuple(
    Row(
        name=name,
        sentence=f"Reads {rows:,} records of {numbers} numbers from slow and failing storage.",
        faults=functools.partial(faults, name=name),
        lacks=lambda soak: "" if shutil.which("cc") else "needs a C compiler (cc)",
    )
    for name, (numbers, rows) in SIZES.items()
)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        harness.run(lambda: ROWS)

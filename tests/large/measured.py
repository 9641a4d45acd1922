"""What is measured of a large dataset, each in a process of its own: seconds, and memory at its peak.

`python -m tests.large.measured NAME SCRATCH` prints the figures as JSON.
"""

import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.integrity import damage
from pipeline.data.integrity.scan import DamagedRecord, ScanMemory

DAMAGED = 10_000
_PICTURES_READ = 96
_BATCH = 16

Figures = Mapping[str, float]


def opened(directory: pathlib.Path) -> Figures:
    """Seconds and MiB of opening a dataset and selecting its rows."""
    start, cpu = time.perf_counter(), time.process_time()
    selection = select(open_dataset(directory), "train")
    taken = {"s": time.perf_counter() - start, "CPU s": time.process_time() - cpu}
    return {**taken, "rows": selection.rows, "MiB": _peak_mib()}


def read(directory: pathlib.Path) -> Figures:
    """The same, with the first rows of its shuffled stream."""
    from pipeline.data.reading import stream
    from pipeline.data.reading.plan import plan_reading
    from pipeline.data.reading.sharding import Share

    imported = _peak_mib()
    start = time.perf_counter()
    plan = plan_reading(select(open_dataset(directory), "train"), share=Share(global_batch=512), seed=1)
    positions, rows = next(iter(stream.read(plan)))
    assert int(positions[0]) == 0
    assert len(set(rows.numpy().tolist())) > 1
    return {"s": time.perf_counter() - start, "MiB": _peak_mib(), "MiB more": _peak_mib() - imported}


def left_out(directory: pathlib.Path) -> Figures:
    """Seconds of leaving out damaged records."""
    selection = select(open_dataset(directory), "train")
    damaged = _damaged(selection)
    start, cpu = time.perf_counter(), time.process_time()
    left = damage.without_damaged(selection, damaged)
    assert selection.rows - left.rows == DAMAGED
    return {"s": time.perf_counter() - start, "CPU s": time.process_time() - cpu}


def scanned_again(directory: pathlib.Path) -> Figures:
    """What comparing all records reads and takes, and what a second start does that remembers it."""
    selection, found = select(open_dataset(directory), "train"), {}
    with tempfile.TemporaryDirectory() as folder:
        for which in ("first", "again"):
            start, before = time.perf_counter(), _bytes_read()
            memory = ScanMemory(pathlib.Path(folder) / "scan.json")
            assert not memory.damaged(selection)
            memory.save()
            found |= {
                f"s {which}": time.perf_counter() - start,
                f"KiB read {which}": (_bytes_read() - before) / 1024,
            }
    return found


def one_stream(directory: pathlib.Path) -> Figures:
    """MiB of reading pictures of one dataset, raw."""
    return _of_pictures(select(open_dataset(directory), "train"))


def mixture(directory: pathlib.Path) -> Figures:
    """MiB of reading as many of two datasets."""
    from pipeline.data.reading.plan import Mixture, Part

    parts = [Part(selection=select(open_dataset(directory), "train"), weight=weight) for weight in (3.0, 1.0)]
    return _of_pictures(Mixture(parts=tuple(parts)))


def _of_pictures(data: object) -> Figures:
    from pipeline.data.reading import stream
    from pipeline.data.reading.plan import plan_reading
    from pipeline.data.reading.sharding import Share

    imported = _peak_mib()
    plan = plan_reading(data, share=Share(global_batch=_BATCH), seed=1)
    for number, _ in enumerate(stream.read(plan).rebatch(_BATCH)):
        if (number + 1) * _BATCH >= _PICTURES_READ:
            return {"MiB": _peak_mib(), "MiB more": _peak_mib() - imported}
    raise AssertionError("the stream has an end")


def _damaged(selection: Selection) -> list[DamagedRecord]:
    """Ten records of each of a thousand shards."""
    digest, names = selection.dataset.manifest.digest, selection.shards.names
    places = [(names[n % len(names)], 97 * (n // len(names))) for n in range(DAMAGED)]
    return [
        DamagedRecord(dataset=digest, file=file, ordinal=ordinal, offset=0, rows=1, reason="")
        for file, ordinal in places
    ]


def _bytes_read() -> int:
    """By this process, from files or from memory that has them."""
    return int(pathlib.Path("/proc/self/io").read_text().partition("rchar:")[2].split()[0])


def _peak_mib() -> float:
    """Of this process alone: `ru_maxrss` begins with what the process had that started it."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


MEASURES: Mapping[str, tuple[Callable[[pathlib.Path], Figures], str]] = {
    "a billion rows, opened": (opened, "billion"),
    "a billion rows, read": (read, "billion"),
    "10,000 damaged records left out": (left_out, "billion"),
    "100,000 shards, opened": (opened, "many"),
    "100,000 shards, scanned": (scanned_again, "many"),
    "photographs, one stream": (one_stream, "photographs"),
    "photographs, a mixture": (mixture, "photographs"),
}

if __name__ == "__main__":
    measure, dataset = MEASURES[sys.argv[1]]
    print(json.dumps(measure(pathlib.Path(sys.argv[2]) / dataset)))

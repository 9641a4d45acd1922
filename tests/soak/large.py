"""Opens, reads and converts what is larger than any test's data, and holds seconds and memory to bounds.

  python -m tests.soak.large --cases=billion_*

What is made takes 3 GB, and goes with its case. The shards of the billion rows are links to one file of a
million; all that is in them can be read. Each measure runs in a process of its own, as memory is its peak.
"""

import dataclasses
import functools
import hashlib
import multiprocessing
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from beam_jobs.conversion.assignment import SPLIT, hash_ids, split_of
from beam_jobs.conversion.plan import parse_fractions
from pipeline.data.dataset import manifest, tfrecord
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.manifest import File, Shard, open_dataset
from pipeline.data.dataset.row_hashes import content_hashes
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.integrity import damage
from pipeline.data.integrity.scan import DamagedRecord, ScanMemory
from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema, SplitBy
from tests.shared.tiny_dataset import serialize, write_dataset
from tests.soak import harness
from tests.soak.harness import Row, Soak
from tests.unit.data.reading.id_stream import SCHEMA

DAMAGED = 10_000
_PICTURES_READ, _BATCH = 96, 16
_GB_MIB = 1_000_000_000 / (1 << 20)
Figures = Mapping[str, float]

_FIRST_ID = 1 << 14  # from there on, each id takes three bytes
_PICTURES = Schema(
    name="pictures", features=(Image(name="image", height=64, width=64), Label(name="y", classes=("a", "b")))
)


def billion(directory: pathlib.Path, *, rows_in_shard: int = 1_000_000, shards: int = 1_000) -> None:
    """A dataset of so many rows of two columns."""
    payloads = _payloads(rows_in_shard)
    _publish(directory, [payloads], copies=shards)


def many_shards(directory: pathlib.Path, *, shards: int = 100_000) -> None:
    """A dataset of four rows a shard."""
    payloads = _payloads(4 * 1000)
    _publish(directory, [payloads[4 * (n % 1000) :][:4] for n in range(shards)], copies=1)


def photographs(directory: pathlib.Path, *, count: int = 400, side: int = 1200) -> None:
    """A dataset of JPEGs of noise, which take 2 MB each."""
    import tensorflow as tf

    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 255, (side, side, 3), np.uint8) for _ in range(8)]
    encoded = [tf.io.encode_jpeg(picture, quality=95).numpy() for picture in pictures]
    rows = [{"image": encoded[number % len(encoded)], "y": number % 2} for number in range(count)]
    write_dataset(directory, _PICTURES, {"train": rows}, shards=4)


def _payloads(count: int) -> list[bytes]:
    """Serialized rows with ids of their own."""
    example = serialize(SCHEMA, {"id": _FIRST_ID, "y": 1})
    at = example.index(b"\x80\x80\x01")  # the first id, as a varint
    ids = _FIRST_ID + np.arange(count)
    varints = np.stack([ids & 0x7F | 0x80, ids >> 7 & 0x7F | 0x80, ids >> 14], axis=1).astype(np.uint8)
    rows = np.tile(np.frombuffer(example, np.uint8), (count, 1))
    rows[:, at : at + 3] = varints
    content = rows.tobytes()
    return [content[start : start + len(example)] for start in range(0, len(content), len(example))]


def _publish(directory: pathlib.Path, contents: Sequence[Sequence[bytes]], *, copies: int) -> None:
    """A dataset with a shard of each of `contents`, each under `copies` names."""
    small = write_dataset(directory, SCHEMA, {"train": [{"id": 1, "y": 1}]}, shards=1)
    kept = [file for file in small.manifest.files if not file.path.endswith(".index")]
    count, shards, files = len(contents) * copies, [], []
    for number, payloads in enumerate(contents):
        content, stored = tfrecord.frame(payloads), _index(payloads)
        digests = [hashlib.sha256(each).hexdigest() for each in (content, stored)]
        for copy in range(copies):
            name = f"ids-train.tfrecord-{number * copies + copy:06d}-of-{count:06d}"
            _write(directory / name, content, directory / shards[0].path if copy else None)
            index_name = shards_lib.file_name(name)
            _write(directory / index_name, stored, directory / files[0].path if copy else None)
            records = len(payloads)
            shard = Shard(path=name, bytes=len(content), sha256=digests[0], records=records, rows=records)
            shards.append(shard)
            files.append(File(path=index_name, bytes=len(stored), sha256=digests[1]))
    rows = sum(shard.rows for shard in shards)
    published = dataclasses.replace(
        small.manifest, splits={"train": tuple(shards)}, files=(*kept, *files), rows_read=rows
    )
    (directory / manifest.FILE_NAME).write_text(manifest.dumps(published))


def _write(path: pathlib.Path, content: bytes, same: pathlib.Path | None) -> None:
    if same:
        os.link(same, path)
    else:
        path.write_bytes(content)


def _index(payloads: Sequence[bytes]) -> bytes:
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = np.cumsum(lengths + tfrecord.FRAME_BYTES)
    offsets = ends - lengths - tfrecord.FRAME_BYTES
    return shards_lib.dumps(
        shards_lib.Index(offsets=offsets, lengths=lengths, hashes=content_hashes(payloads))
    )


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
    """The peak of this process alone: `ru_maxrss` begins with what the process had that started it."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def text_of_100_mb(folder: pathlib.Path, *, name: str) -> tuple[str, ...]:
    """Writes one text, as a file of its own or as a cell; the flags that tokenise it."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyzäé", k=draw.randint(2, 9))) for _ in range(5000)]
    line = " ".join(draw.choices(words, k=1 << 17)) + " "
    text = line * (100_000_000 // len(line.encode()) + 1)
    if name.endswith(".txt"):
        (folder / name).write_text(text)
    else:
        pa.parquet.write_table(pa.table({"text": [text]}), folder / name)
    sizes = {"tokens": ByteTokenizer().size, "segments": 513}
    tokens = tuple(Tokens(name=each, length=512, vocabulary_size=size) for each, size in sizes.items())
    schema_lib.save(Schema(name="corpus", features=tokens), folder / "schema.json")
    unit = ("--text_unit=document",) if name.endswith(".txt") else ()
    return f"--input={folder / name}", "--tokenizer=bytes", "--sequence_length=512", *unit


def heavy_group(folder: pathlib.Path, *, megabytes: int = 400) -> tuple[str, ...]:
    """Writes rows of which half have one value of `split_by`, in a split that was planned for 1% of them."""
    splits = "train=0.98,validation=0.01,test=0.01"
    users = [f"heavy{number}" for number in range(10_000)]
    fractions = list(parse_fractions(splits).values())
    heavy = users[split_of(hash_ids(pa.array(users), purpose=SPLIT), fractions).tolist().index(2)]
    with (folder / "rows.csv").open("w") as file:
        file.write(",".join(["user", *(f"x{c}" for c in range(10)), "y"]) + "\n")
        row = 0
        while file.tell() < megabytes * 1_000_000:
            numbers = (str((row * (c + 7919)) % 1_000_003) for c in range(10))
            file.write(",".join([heavy if row % 2 else f"user{row}", *numbers, str(row % 3)]) + "\n")
            row += 1
    features = (*(Numeric(name=f"x{c}") for c in range(10)), Label(name="y", task="regression"))
    schema = Schema(name="heavy", features=features, split_by=SplitBy(columns=("user",)))
    schema_lib.save(schema, folder / "schema.json")
    return f"--input={folder / 'rows.csv'}", f"--splits={splits}"


def measured(
    soak: Soak, *, make: Callable, measures: Mapping[str, Callable], bounds: Mapping
) -> Iterator[str]:
    """Makes a dataset, measures it, each time in a new process, and yields what is beyond its bound."""
    _apart(make, soak.folder / "data")
    found = {name: _apart(measure, soak.folder / "data") for name, measure in measures.items()}
    for (name, unit), bound in bounds.items():
        print(f"{name:<16} {unit:<16} {found[name][unit]:10,.2f}, at most {bound:,.2f}", flush=True)
        if not found[name][unit] <= bound:
            yield f"{name}: {found[name][unit]:,.2f} {unit}, of which {bound:,.2f} are allowed"
    if (
        "mixture" in found
        and (ratio := found["mixture"]["MiB"] / found["one stream"]["MiB"]) > _MIXTURE_TO_ONE
    ):
        yield f"a mixture takes {ratio:.2f} of one stream's memory, of which {_MIXTURE_TO_ONE} are allowed"


def converted(soak: Soak, *, make: Callable[[pathlib.Path], tuple[str, ...]]) -> Iterator[str]:
    """Converts, and yields what is beyond a gigabyte."""
    given = _apart(make, soak.folder)
    output = (f"--schema={soak.folder / 'schema.json'}", f"--output={soak.folder / 'dataset' / '1.0.0'}")
    process = subprocess.Popen([sys.executable, "-m", "beam_jobs.convert", *given, *output])
    _, status, usage = os.wait4(process.pid, 0)
    peak = usage.ru_maxrss / 1024
    print(f"peak {peak:,.0f} MiB, at most {_GB_MIB:,.0f}", flush=True)
    if status or peak > _GB_MIB:
        yield f"exit code {os.waitstatus_to_exitcode(status)}, {peak:,.0f} MiB"


def _apart(body: Callable, *arguments: object) -> object:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(body, arguments)


_MIXTURE_TO_ONE = 1.3
_BILLION = {
    ("opened", "s"): 5.0,
    ("opened", "MiB"): 1024.0,
    ("read", "MiB more"): 1024.0,
    ("left out", "s"): 2.0,
}
_MANY = {("opened", "s"): 20.0, ("scanned", "KiB read again"): 64.0}
ROWS = (
    Row(
        name="billion_rows",
        sentence="Opens and reads a billion rows, and leaves 10,000 damaged records out.",
        faults=functools.partial(
            measured,
            make=billion,
            measures={"opened": opened, "read": read, "left out": left_out},
            bounds=_BILLION,
        ),
    ),
    Row(
        name="many_shards",
        sentence="Opens 100,000 shards, and scans them twice.",
        faults=functools.partial(
            measured, make=many_shards, measures={"opened": opened, "scanned": scanned_again}, bounds=_MANY
        ),
    ),
    Row(
        name="photographs",
        sentence="Reads photographs of one dataset, and of a mixture of two.",
        faults=functools.partial(
            measured,
            make=photographs,
            measures={"one stream": one_stream, "mixture": mixture},
            bounds={},
        ),
    ),
    *(
        Row(
            name=f"long_{name}",
            sentence="Tokenises one text of 100 MB within 1 GB.",
            faults=functools.partial(converted, make=functools.partial(text_of_100_mb, name=name)),
        )
        for name in ("text.txt", "cell.parquet")
    ),
    Row(
        name="heavy_group",
        sentence="Converts where one value of split_by has half the rows, within 1 GB.",
        faults=functools.partial(converted, make=heavy_group),
    ),
)


if __name__ == "__main__":
    harness.run(lambda: ROWS)

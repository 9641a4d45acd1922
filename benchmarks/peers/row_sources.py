"""CPU of a row through `penstock`'s source, Grain's own readers, ArrayRecord and a memory-mapped array.

python -m benchmarks.peers.row_sources SCRATCH ROUNDS, after `benchmarks.source` has written the datasets. All
readers but `one by one` give batches of 1,024 rows, as NumPy arrays by feature. Prints JSON.
"""

import itertools
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import grain
import numpy as np
import torch
from array_record.python.array_record_module import ArrayRecordWriter
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import penstock
from penstock.dataset import Split
from pipeline.data.dataset.tfrecord import Record, read_records

BATCH, SEED = 1024, 1
_FEW = 4  # batches that are read where a row costs much
Rows = Mapping[str, np.ndarray]


def main(scratch: pathlib.Path, rounds: int) -> None:
    readers = dict(_readers(scratch))
    costs: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, (batches, count) in readers.items():
            costs[name].append(_cpu_us(batches, count))
    print(json.dumps({name: statistics.median(each) for name, each in costs.items()}))


def _readers(scratch: pathlib.Path) -> Iterator[tuple[str, tuple[Callable[[], Iterable], int]]]:
    """Readers by name: functions that begin to read, and how many batches are taken of each."""
    rows, blocks = (penstock.open(scratch / layout).train for layout in ("rows", "blocks"))
    records, many = _records(rows), rows.rows // BATCH
    example = _example()
    array_record = _array_record(scratch / "rows.arrayrecord", records)
    mapped = _mapped(scratch / "rows.npy", blocks)
    [path] = rows.selection.shards.paths
    names = [feature.name for feature in rows.selection.dataset.schema.features]

    def parse(record: bytes) -> dict:
        features = example.FromString(record).features.feature
        return {name: _value(features[name]) for name in names}

    yield "penstock: rows, batches", (lambda: _source(rows), many)
    yield "penstock: rows, Grain over batches", (lambda: _in_grain(rows), many)
    yield "penstock: rows, torch DataLoader", (lambda: _in_torch(rows), many)
    yield "penstock: rows, one by one in Grain", (lambda: _one_by_one(rows)[:_FEW], _FEW)
    yield (
        "grain: TFRecord, batches",
        (lambda: grain.experimental.TFRecordIterDataset(path).map(parse).batch(BATCH), _FEW),
    )
    yield (
        "grain: ArrayRecord, shuffled batches",
        (lambda: _shuffled(array_record).map(parse).batch(BATCH)[:_FEW], _FEW),
    )
    yield "penstock: blocks, batches", (lambda: _source(blocks), many)
    yield "penstock: blocks, Grain over batches", (lambda: _in_grain(blocks), many)
    yield "torch: memory-mapped, shuffled batches", (lambda: _gathered(mapped), many)


def _source(split: Split) -> Iterator[Rows]:
    source = split.source(BATCH, seed=SEED).batched(BATCH)
    return (source[number] for number in range(len(source)))


def _in_grain(split: Split) -> Iterable[Rows]:
    return grain.MapDataset.source(split.source(BATCH, seed=SEED).batched(BATCH))  # to its end


def _in_torch(split: Split) -> Iterable[list]:
    return torch.utils.data.DataLoader(
        split.source(BATCH, seed=SEED), batch_size=BATCH, collate_fn=lambda rows: rows
    )


def _one_by_one(split: Split) -> grain.MapDataset:
    return grain.MapDataset.source(split.source(BATCH, seed=SEED)).batch(BATCH)


def _shuffled(source: grain.sources.ArrayRecordDataSource) -> grain.MapDataset:
    return grain.MapDataset.source(source).shuffle(SEED)


def _gathered(mapped: np.ndarray) -> Iterator[torch.Tensor]:
    order = np.random.default_rng(SEED).permutation(len(mapped))
    return (torch.from_numpy(mapped[order[at : at + BATCH]]) for at in range(0, len(mapped), BATCH))


def _cpu_us(batches: Callable[[], Iterable], count: int) -> float:
    """CPU µs a row of all that so many batches take: Grain's threads begin before the first is asked for."""
    began = time.process_time()
    taken = sum(1 for _ in itertools.islice(batches(), count))
    return (time.process_time() - began) / (taken * BATCH) * 1e6


# --- The same records for the others.


def _records(split: Split) -> list[bytes]:
    [path] = map(pathlib.Path, split.selection.shards.paths)
    with path.open("rb") as file:
        found = read_records(file, path.stat().st_size)
        return [each.payload for each in found if isinstance(each, Record)]


def _array_record(path: pathlib.Path, records: list[bytes]) -> grain.sources.ArrayRecordDataSource:
    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()
    return grain.sources.ArrayRecordDataSource([str(path)])


def _mapped(path: pathlib.Path, split: Split) -> np.ndarray:
    columns = split.source()[:].values()
    np.save(path, np.stack([column.astype(np.float32).view(np.int32) for column in columns], axis=1))
    return np.load(path, mmap_mode="r")


def _value(feature: object) -> np.generic:
    """The one value of a tf.train.Feature."""
    kind = feature.WhichOneof("kind")
    value = getattr(feature, kind).value[0]
    return np.float32(value) if kind == "float_list" else np.int64(value)


def _example() -> type:
    """The message tf.train.Example for protobuf's own parser, which is in C: see tensorflow/core/example."""
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, int, str, bool]) -> descriptor_pb2.DescriptorProto:
        added = file.message_type.add(name=name)
        for label, number, kind, type_name, repeated in fields:
            added.field.add(
                name=label,
                number=number,
                type=kind,
                type_name=f".tensorflow.{type_name}" if type_name else None,
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
            )
        return added

    message("BytesList", ("value", 1, field.TYPE_BYTES, "", True))
    message("FloatList", ("value", 1, field.TYPE_FLOAT, "", True))
    message("Int64List", ("value", 1, field.TYPE_INT64, "", True))
    lists = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
    feature = message(
        "Feature", *((name, i + 1, field.TYPE_MESSAGE, kind, False) for i, (name, kind) in enumerate(lists))
    )
    feature.oneof_decl.add(name="kind")
    for each in feature.field:
        each.oneof_index = 0
    features = message("Features", ("feature", 1, field.TYPE_MESSAGE, "Features.FeatureEntry", True))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(
        name="value",
        number=2,
        type=field.TYPE_MESSAGE,
        type_name=".tensorflow.Feature",
        label=field.LABEL_OPTIONAL,
    )
    message("Example", ("features", 1, field.TYPE_MESSAGE, "Features", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.Example"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))

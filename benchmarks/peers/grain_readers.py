"""Grain over ArrayRecord files of one example a record, under a global permutation."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence

import grain
import numpy as np

from benchmarks.peers.crop import random_crop
from benchmarks.reading.shapes import BATCH, CATEGORIES, COLUMNS, MEAN, NUMBERS, ROW_TOKENS, SIDE, STD

_WORKERS = 2
_PREFETCHED = 2  # batches a worker
_ENDLESS = 1 << 40  # batches

_SCALE = np.tile(1 / np.array(STD), SIDE).astype(np.float32)
_OFFSET = np.tile(-np.array(MEAN) / STD, SIDE).astype(np.float32)


def rows(directory: pathlib.Path) -> Iterator[tuple]:
    """ArrayRecord of one row a record: a permuted batch read by `__getitems__`, joined, decoded at once."""

    def columns(records: Sequence[bytes]) -> tuple[np.ndarray, ...]:
        batch = np.frombuffer(b"".join(records), np.int32).reshape(-1, COLUMNS)
        dense, rest = batch[:, :NUMBERS].copy().view(np.float32), batch[:, NUMBERS:]
        return dense, rest[:, :CATEGORIES], rest[:, CATEGORIES]

    return _batched(directory, BATCH["tabular"], columns)


def tokens(directory: pathlib.Path) -> Iterator[tuple]:
    """ArrayRecord of one row a record: a permuted batch read by `__getitems__`, joined, decoded at once."""

    def packed(records: Sequence[bytes]) -> tuple[np.ndarray]:
        batch = np.frombuffer(b"".join(records), np.uint16).reshape(-1, ROW_TOKENS)
        return (batch.astype(np.int32),)

    return _batched(directory, BATCH["tokens"], packed)


def images(directory: pathlib.Path) -> Iterator[tuple]:
    """ArrayRecord, simplejpeg and cv2 in two workers, normalised there a batch at a time: float32."""

    def decoded(record: bytes, random: np.random.Generator) -> tuple[np.ndarray, int]:
        return random_crop(record[4:], random), int.from_bytes(record[:4], "little")

    def normalised(batch: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        pixels, labels = batch
        lines = pixels.reshape(-1, SIDE, SIDE * 3).astype(np.float32)
        lines *= _SCALE
        lines += _OFFSET
        return lines.reshape(pixels.shape), labels

    pictures = grain.MapDataset.source(_source(directory)).seed(1).shuffle().repeat().random_map(decoded)
    batches = pictures.batch(BATCH["images"], drop_remainder=True).map(normalised)
    one_thread = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED)
    processes = grain.MultiprocessingOptions(num_workers=_WORKERS, per_worker_buffer_size=_PREFETCHED)
    return iter(batches.to_iter_dataset(one_thread).mp_prefetch(processes))


def _source(directory: pathlib.Path) -> grain.sources.ArrayRecordDataSource:
    return grain.sources.ArrayRecordDataSource(
        sorted(map(str, (directory / "arrayrecord").glob("*.arrayrecord")))
    )


def _batched(
    directory: pathlib.Path, batch: int, decode: Callable[[Sequence[bytes]], tuple]
) -> Iterator[tuple]:
    """`MapDataset.shuffle().batch()` reads records one by one, which costs five times as much."""
    source = _source(directory)
    batches = len(source) // batch

    @functools.lru_cache(maxsize=2)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(epoch).permutation(len(source))

    def read(number: int) -> tuple:
        epoch, batch_number = divmod(number, batches)
        rows = order(epoch)[batch_number * batch : (batch_number + 1) * batch]
        return decode(source.__getitems__(rows.tolist()))

    one_thread = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED)
    return iter(grain.MapDataset.range(_ENDLESS).map(read).to_iter_dataset(one_thread))

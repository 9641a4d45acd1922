"""MosaicML streaming over local MDS files, shuffled by its own algorithm, with two workers."""

import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from streaming import StreamingDataset
from streaming.base.util import clean_stale_shared_memory
from torch.utils.data import DataLoader

from benchmarks.reading.shapes import BATCH, CATEGORIES, NUMBERS

_WORKERS = 2
_PREFETCHED = 4  # batches a worker


def rows(directory: pathlib.Path) -> Iterator[tuple]:
    """MDS, its own shuffle, two workers, samples stacked in the collate function."""

    def columns(samples: list[dict]) -> tuple[torch.Tensor, ...]:
        batch = torch.from_numpy(np.stack([sample["row"] for sample in samples]))
        dense = batch[:, :NUMBERS].contiguous().view(torch.float32)
        return dense, batch[:, NUMBERS : NUMBERS + CATEGORIES], batch[:, NUMBERS + CATEGORIES]

    return _endless(directory, BATCH["tabular"], columns)


def tokens(directory: pathlib.Path) -> Iterator[tuple]:
    """MDS, its own shuffle, two workers, samples stacked in the collate function."""

    def packed(samples: list[dict]) -> tuple[torch.Tensor]:
        return (torch.from_numpy(np.stack([sample["row"] for sample in samples]).astype(np.int32)),)

    return _endless(directory, BATCH["tokens"], packed)


def _endless(directory: pathlib.Path, batch: int, collate: Callable[[list[dict]], tuple]) -> Iterator[tuple]:
    torch.set_num_threads(1)
    clean_stale_shared_memory()  # of runs before
    dataset = StreamingDataset(
        local=str(directory / "mds"), shuffle=True, batch_size=batch, num_canonical_nodes=1
    )
    loader = DataLoader(
        dataset,
        batch_size=batch,
        collate_fn=collate,
        drop_last=True,
        num_workers=_WORKERS,
        prefetch_factor=_PREFETCHED,
        persistent_workers=True,
    )
    while True:
        yield from loader

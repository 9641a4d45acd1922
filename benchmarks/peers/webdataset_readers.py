"""WebDataset over tar files: shards shuffled, then a buffer of 1,000 samples a worker."""

import pathlib
from collections.abc import Iterator

import numpy as np
import torch
import webdataset

from benchmarks.peers.crop import random_crop
from benchmarks.peers.normalise import normalised
from benchmarks.reading.shapes import BATCH

_WORKERS = 2
_PREFETCHED = 4  # batches a worker
_SHUFFLE_BUFFER = 1000


def images(directory: pathlib.Path) -> Iterator[tuple]:
    """Tar files, simplejpeg and cv2 in two workers; the parent normalises each batch with torch: float32."""
    torch.set_num_threads(1)
    shards = sorted(map(str, (directory / "webdataset").glob("*.tar")))
    samples = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(_SHUFFLE_BUFFER)
    batches = samples.to_tuple("jpg", "cls").map(_decoded).batched(
        BATCH["images"], collation_fn=_stacked, partial=False
    )  # fmt: skip
    loader = webdataset.WebLoader(
        batches.repeat(), batch_size=None, num_workers=_WORKERS, prefetch_factor=_PREFETCHED
    )
    for pixels, label in loader:
        yield normalised(pixels), label


def _decoded(sample: tuple[bytes, bytes]) -> tuple[np.ndarray, int]:
    jpeg, label = sample
    return random_crop(jpeg, np.random.default_rng()), int(label)


def _stacked(samples: list[tuple[np.ndarray, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    pixels, labels = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(pixels)), torch.tensor(labels, dtype=torch.int32)

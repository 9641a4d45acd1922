"""PyTorch's DataLoader over files that are mapped into memory."""

import pathlib
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from benchmarks.peers.crop import random_crop
from benchmarks.peers.normalise import normalised
from benchmarks.reading.shapes import BATCH, CATEGORIES, NUMBERS

_WORKERS = 2
_PREFETCHED = 4  # batches a worker


def mapped_rows(directory: pathlib.Path) -> Iterator[tuple]:
    """`numpy.memmap` of packed rows, a permuted batch gathered at once, no workers."""
    return _mapped(_Columns(directory), BATCH["tabular"])


def mapped_tokens(directory: pathlib.Path) -> Iterator[tuple]:
    """`numpy.memmap` of packed uint16, a permuted batch gathered at once, no workers: int32."""
    return _mapped(_Tokens(directory), BATCH["tokens"])


def uint8_images(directory: pathlib.Path) -> Iterator[tuple]:
    """`numpy.memmap` of all JPEGs, simplejpeg and cv2 in two workers, global permutation: uint8."""
    while True:
        yield from _loader(directory)


def float32_images(directory: pathlib.Path) -> Iterator[tuple]:
    """The same; the parent normalises each batch with torch: float32."""
    for pixels, label in uint8_images(directory):
        yield normalised(pixels), label


class _Columns(Dataset):
    def __init__(self, directory: pathlib.Path) -> None:
        self.rows = np.load(directory / "rows.npy", mmap_mode="r")

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, indices: np.ndarray) -> tuple[torch.Tensor, ...]:
        rows = torch.from_numpy(self.rows[indices])
        dense = rows[:, :NUMBERS].view(torch.float32)
        return dense, rows[:, NUMBERS : NUMBERS + CATEGORIES], rows[:, NUMBERS + CATEGORIES]


class _Tokens(_Columns):
    def __getitem__(self, indices: np.ndarray) -> tuple[torch.Tensor]:
        return (torch.from_numpy(self.rows[indices].astype(np.int32)),)


class _Permutations(Sampler):
    """The indices of one batch after the other, for ever; a new global permutation each epoch."""

    def __init__(self, examples: int, batch: int) -> None:
        self.examples, self.batch = examples, batch

    def __iter__(self) -> Iterator[np.ndarray]:
        random = np.random.default_rng(0)
        while True:
            order = random.permutation(self.examples)
            for start in range(0, self.examples - self.batch + 1, self.batch):
                yield order[start : start + self.batch]


def _mapped(rows: _Columns, batch: int) -> Iterator[tuple]:
    return iter(DataLoader(rows, sampler=_Permutations(len(rows), batch), batch_size=None))


class _Images(Dataset):
    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / "images.bin"
        self.offsets = np.load(directory / "offsets.npy")
        self.bytes: np.memmap | None = None  # each worker maps the file for itself

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if self.bytes is None:
            self.bytes = np.memmap(self.path, np.uint8, "r")
        jpeg = self.bytes[self.offsets[index] : self.offsets[index + 1]].tobytes()
        return random_crop(jpeg, np.random.default_rng()), index


def _loader(directory: pathlib.Path) -> DataLoader:
    torch.set_num_threads(1)
    return DataLoader(
        _Images(directory),
        batch_size=BATCH["images"],
        shuffle=True,
        drop_last=True,
        num_workers=_WORKERS,
        prefetch_factor=_PREFETCHED,
        persistent_workers=True,
        collate_fn=_stacked,
    )


def _stacked(examples: list[tuple[np.ndarray, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    pixels, labels = zip(*examples, strict=True)
    return torch.from_numpy(np.stack(pixels)), torch.tensor(labels, dtype=torch.int32)

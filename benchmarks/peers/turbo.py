"""libjpeg-turbo alone, by simplejpeg: one thread, no crop, no batch, no shuffle."""

import itertools
import pathlib
from collections.abc import Iterator

import numpy as np

from benchmarks.peers.crop import decode
from benchmarks.reading.shapes import BATCH


def images(directory: pathlib.Path) -> Iterator[tuple]:
    """libjpeg-turbo's cheapest decode of whole JPEGs from mapped memory, nothing else; a floor."""
    content, offsets = np.memmap(directory / "images.bin", np.uint8, "r"), np.load(directory / "offsets.npy")
    while True:
        for start in range(0, len(offsets) - 1, BATCH["images"]):
            edges = offsets[start : start + BATCH["images"] + 1]
            for begin, end in itertools.pairwise(edges):
                decode(content[begin:end].tobytes())
            yield (range(len(edges) - 1),)

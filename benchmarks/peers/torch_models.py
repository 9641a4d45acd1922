"""The benchmark's two models in PyTorch, with the weights of Keras's. Imports no TensorFlow.

`training/torch_peer.py` writes the weights, in the order of Keras's `trainable_variables`, and checks that
both models answer the same.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

Inputs = Mapping[str, torch.Tensor]
_NORM_EPSILON = 1e-3  # Keras's; torch's own is 1e-5


class WideDeep(nn.Module):
    """As models/wide_deep.py, of numbers and categories."""

    def __init__(self, weights: Sequence[np.ndarray], *, offsets: Sequence[int], dropout: float) -> None:
        super().__init__()
        of = iter(weights)
        self.table, self.frequency = _parameter(next(of)), _parameter(next(of))
        self.first, self.second = _dense(next(of), next(of)), _dense(next(of), next(of))
        self.wide, self.wide_numeric = _parameter(next(of)), _dense(next(of))
        self.deep = _dense(next(of), next(of))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("offsets", torch.tensor(offsets))

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Logits, float32 [batch, 1]."""
        ids, numbers = inputs["categories"] + self.offsets, inputs["numeric"]
        angle = 2.0 * math.pi * numbers[:, :, None] * self.frequency
        waves = torch.cat([numbers[:, :, None], torch.sin(angle), torch.cos(angle)], dim=-1)
        x = torch.cat([waves.flatten(1), functional.embedding(ids, self.table).flatten(1)], dim=1)
        for layer in (self.first, self.second):
            x = self.dropout(torch.relu(layer(x)))
        return functional.embedding(ids, self.wide).sum(1) + self.wide_numeric(numbers) + self.deep(x)


class ResNet(nn.Module):
    """As models/resnet.py, with a stem that halves the image and one block a stage."""

    def __init__(self, weights: Sequence[np.ndarray], *, widths: Sequence[int], stem_stride: int) -> None:
        super().__init__()
        of, before = iter(weights), widths[0]
        self.stem = _Convolution(next(of), stem_stride)
        self.blocks = nn.ModuleList()
        for stage, width in enumerate(widths):
            self.blocks.append(_Block(of, stride=2 if stage else 1, grows=width != before))
            before = width
        self.norm, self.logits = _norm(next(of), next(of)), _dense(next(of), next(of))

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Logits, float32 [batch, classes], of uint8 pixels [batch, height, width, channels]."""
        x = inputs["image"].permute(0, 3, 1, 2).to(torch.float32) * (1 / 255)  # channels last in memory
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.logits(torch.relu(self.norm(x)).mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, of: Iterator[np.ndarray], *, stride: int, grows: bool) -> None:
        super().__init__()
        self.norm = _norm(next(of), next(of))
        self.first = _Convolution(next(of), stride)
        self.between = _norm(next(of), next(of))
        self.shortcut = _Convolution(next(of), stride) if grows else None
        self.second = _Convolution(next(of), 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        activated = torch.relu(self.norm(x))
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return shortcut + self.second(torch.relu(self.between(self.first(activated))))


class _Convolution(nn.Module):
    """Padded as TensorFlow's SAME: what is odd of it stands at the end."""

    def __init__(self, kernel: np.ndarray, stride: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(
            torch.from_numpy(kernel.transpose(3, 2, 0, 1).copy()).to(memory_format=torch.channels_last)
        )
        self.stride = stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = self.kernel.shape[-1]
        pads = [max(0, (math.ceil(n / self.stride) - 1) * self.stride + size - n) for n in x.shape[:1:-1]]
        if not any(pad % 2 for pad in pads):
            return functional.conv2d(x, self.kernel, stride=self.stride, padding=pads[0] // 2)
        sides = [side for pad in pads for side in (pad // 2, pad - pad // 2)]
        return functional.conv2d(functional.pad(x, sides), self.kernel, stride=self.stride)


def _parameter(values: np.ndarray) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(values.copy()))


def _dense(kernel: np.ndarray, bias: np.ndarray | None = None) -> nn.Linear:
    layer = nn.Linear(*kernel.shape, bias=bias is not None)
    layer.weight = _parameter(kernel.T)
    if bias is not None:
        layer.bias = _parameter(bias)
    return layer


def _norm(gamma: np.ndarray, beta: np.ndarray) -> nn.GroupNorm:
    layer = nn.GroupNorm(8, len(gamma), eps=_NORM_EPSILON)
    layer.weight, layer.bias = _parameter(gamma), _parameter(beta)
    return layer


MODELS: Mapping[str, Callable[..., nn.Module]] = {"wide_deep": WideDeep, "resnet": ResNet}

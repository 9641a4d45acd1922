"""The benchmark's models in PyTorch, with the weights of Keras's. Imports no TensorFlow.

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


class Tabular(nn.Module):
    """As models/tabular.py, of numbers and categories, with several members and one output."""

    def __init__(
        self,
        weights: Sequence[np.ndarray],
        *,
        boundaries: Sequence[Sequence[float]],
        taken: Sequence[int],
        offsets: Sequence[int],
        dropout: float,
    ) -> None:
        super().__init__()
        of = iter(weights)
        self.table = _parameter(next(of))
        self.line, self.bias, self.pieces = (_parameter(next(of)) for _ in range(3))
        self.gamma = _parameter(next(of))
        self.first = _dense(next(of), next(of))
        self.linear, self.linear_numbers = _parameter(next(of)), _dense(next(of))
        self.second = _dense(next(of), next(of))
        self.deep, self.deep_bias = _parameter(next(of)), _parameter(next(of))
        self.dropout = nn.Dropout(dropout)
        edges = torch.tensor(boundaries)  # (numbers, bins + 1)
        self.register_buffer("lows", edges[:, :-1].clone())
        self.register_buffer("inverse_widths", 1.0 / edges.diff(dim=1))
        self.register_buffer("taken", torch.tensor(taken))
        self.register_buffer("offsets", torch.tensor(offsets))

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Logits, float32 [batch, 1]; in training [batch, members, 1]."""
        numbers, ids = inputs["numeric"], inputs["categories"][:, self.taken] + self.offsets
        column = numbers[:, :, None]
        parts = ((column - self.lows) * self.inverse_widths).clamp(0.0, 1.0)
        pieces = torch.einsum("bni,nis->bns", parts, self.pieces)
        embedded = torch.addcmul(self.bias, column, self.line) + pieces
        x = torch.cat([embedded.flatten(1), functional.embedding(ids, self.table).flatten(1)], dim=1)
        x = x[:, None] * self.gamma  # (batch, members, width)
        for layer in (self.first, self.second):
            x = self.dropout(torch.relu(layer(x)))
        linear = functional.embedding(ids, self.linear).sum(1) + self.linear_numbers(numbers)
        deep = torch.einsum("bmi,mio->bmo", x, self.deep) + self.deep_bias
        logits = 3.0 * linear[:, None] + deep
        return logits if self.training else logits.mean(1)


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
        self.kernel, self.stride = _kernel(kernel), stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = self.kernel.shape[-1]
        pads = [max(0, (math.ceil(n / self.stride) - 1) * self.stride + size - n) for n in x.shape[:1:-1]]
        if not any(pad % 2 for pad in pads):
            return functional.conv2d(x, self.kernel, stride=self.stride, padding=pads[0] // 2)
        sides = [side for pad in pads for side in (pad // 2, pad - pad // 2)]
        return functional.conv2d(functional.pad(x, sides), self.kernel, stride=self.stride)


class ResNet18(nn.Module):
    """As models/resnet.py's, with the published stem."""

    def __init__(self, weights: Sequence[np.ndarray]) -> None:
        super().__init__()
        of = iter(weights)
        self.stem, self.norm = _centred(next(of), 2), _batch_norm(next(of), next(of))
        strides = (1, 1, 2, 1, 2, 1, 2, 1)
        self.blocks = nn.Sequential(*(_Basic(of, stride=stride) for stride in strides))
        self.logits = _dense(next(of), next(of))

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Logits, float32 [batch, classes], of uint8 pixels [batch, height, width, channels]."""
        x = inputs["image"].permute(0, 3, 1, 2).to(torch.float32) * (1 / 255)  # channels last in memory
        x = functional.max_pool2d(functional.relu(self.norm(self.stem(x)), inplace=True), 3, 2, padding=1)
        return self.logits(self.blocks(x).mean((2, 3)))


class _Basic(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, of: Iterator[np.ndarray], *, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = _centred(next(of), stride), _batch_norm(next(of), next(of))
        self.shortcut = nn.Sequential(_centred(next(of), stride)) if stride > 1 else None
        self.second = _centred(next(of), 1)
        if self.shortcut is not None:
            self.shortcut.append(_batch_norm(next(of), next(of)))
        self.second_norm = _batch_norm(next(of), next(of))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added = functional.relu(self.first_norm(self.first(x)), inplace=True)
        added = self.second_norm(self.second(added))
        return functional.relu(added + (x if self.shortcut is None else self.shortcut(x)), inplace=True)


def _centred(kernel: np.ndarray, stride: int) -> nn.Conv2d:
    """A convolution padded alike on all sides."""
    size, _, inputs, outputs = kernel.shape
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
    layer.weight = _kernel(kernel)
    return layer


def _batch_norm(gamma: np.ndarray, beta: np.ndarray) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(len(gamma))  # eps 1e-5, and 0.9 of the statistics are kept
    layer.weight, layer.bias = _parameter(gamma), _parameter(beta)
    return layer


class Transformer(nn.Module):
    """As models/transformer.py; one product of matrices makes queries, keys and values."""

    def __init__(
        self, weights: Sequence[np.ndarray], *, depth: int, heads: int, key_value_heads: int
    ) -> None:
        super().__init__()
        of = iter(weights)
        self.table = _parameter(next(of))
        self.blocks = nn.ModuleList(_Attending(of, heads=heads, shared=key_value_heads) for _ in range(depth))
        self.norm = _rms_norm(next(of))
        size = self.table.shape[1] // heads
        self.register_buffer("frequencies", 10_000.0 ** (-torch.arange(0, size, 2) / size))

    def forward(self, inputs: Inputs) -> torch.Tensor:
        """Logits, float32 [batch, length, tokens], of the token after each."""
        segments = inputs["segments"]
        sees = (segments[:, :, None] == segments[:, None]).tril()
        angles = (sees.sum(-1) - 1)[:, :, None, None] * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        x = functional.embedding(inputs["tokens"], self.table)
        for block in self.blocks:
            x = block(x, cos, sin, sees[:, None])
        return functional.linear(self.norm(x), self.table[1:])


class _Attending(nn.Module):
    """Attention, then a perceptron."""

    def __init__(self, of: Iterator[np.ndarray], *, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared = heads, shared
        self.norm = _rms_norm(next(of))
        self.projected = _dense(np.concatenate([next(of), next(of), next(of)], axis=1))
        self.query_norm, self.key_norm = _rms_norm(next(of)), _rms_norm(next(of))
        self.output = _dense(next(of))
        self.perceptron_norm, self.up, self.down = _rms_norm(next(of)), _dense(next(of)), _dense(next(of))

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sees: torch.Tensor
    ) -> torch.Tensor:
        parts = self.projected(self.norm(x)).unflatten(-1, (-1, x.shape[-1] // self.heads))
        query, key, value = parts.split((self.heads, self.shared, self.shared), dim=2)
        query, key = _turned(self.query_norm(query), cos, sin), _turned(self.key_norm(key), cos, sin)
        attended = functional.scaled_dot_product_attention(
            *(each.transpose(1, 2) for each in (query, key, value)), attn_mask=sees, enable_gqa=True
        )
        x = x + self.output(attended.transpose(1, 2).flatten(2))
        return x + self.down(functional.relu(self.up(self.perceptron_norm(x))).square())


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


def _rms_norm(scale: np.ndarray) -> nn.RMSNorm:
    layer = nn.RMSNorm(len(scale), eps=1e-6)
    layer.weight = _parameter(scale)
    return layer


def _kernel(values: np.ndarray) -> nn.Parameter:
    """Of a convolution, with the channels last in memory."""
    ours = torch.from_numpy(values.transpose(3, 2, 0, 1).copy())
    return nn.Parameter(ours.to(memory_format=torch.channels_last))


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


MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "wide_deep": WideDeep,
    "tabular": Tabular,
    "resnet": ResNet,
    "resnet18": ResNet18,
    "transformer": Transformer,
}

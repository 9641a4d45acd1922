"""What can be said of a training step before anything compiles: padding, dtypes, dense updates of tables."""

import math
from collections.abc import Iterator

import keras
import tensorflow as tf

from pipeline.forecast.lowering import Weighed
from pipeline.forecast.target import Target
from pipeline.report import formats
from pipeline.report.section import Finding

_SUBLANES = 8  # rows of a TPU's tile; its columns are `Accelerator.lanes`
_WASTE = 0.25  # more than this part of a layer's multiplications in vain is worth a line
_SHARE = 0.05  # layers with a smaller part of all multiplications do not count
_LARGE_TABLE = 1 << 28  # bytes
_MOST = 5


def findings(weighed: Weighed, target: Target, *, batch: int, policy: str) -> Iterator[Finding]:
    """What a careful reader of the model would say, for `batch` examples on a device of the target."""
    yield from _precision(target, policy)
    yield from _dtypes(weighed)
    if target.accelerator.is_tpu:
        yield from _tables(weighed.model)  # a GPU updates them by rows
        yield from _padding(weighed.model, target, batch)


def _precision(target: Target, policy: str) -> Iterator[Finding]:
    accelerator = target.accelerator
    if policy == "mixed_bfloat16" and not accelerator.has_bfloat16:
        yield Finding(
            text=f"{accelerator.name} does not compute bfloat16.",
            advice="--precision=mixed_float16 is for it.",
        )
    if policy == "float32" and accelerator.is_tpu:
        yield Finding(
            text="A TPU multiplies float32 as bfloat16, or in several passes: the other half of the numbers "
            "costs memory and time, and gains little.",
            advice="--precision=mixed_bfloat16.",
        )
    if policy == "mixed_float16" and accelerator.is_tpu:
        yield Finding(text="A TPU has no float16.", advice="--precision=mixed_bfloat16.")


def _dtypes(weighed: Weighed) -> Iterator[Finding]:
    inputs, _ = weighed.specs
    for name, spec in inputs.items():
        if spec.dtype == tf.string:
            yield Finding(
                text=f"Input '{name}' is text, which no accelerator takes.", advice="Hash it before."
            )
        if spec.dtype == tf.int64:
            yield Finding(
                text=f"Input '{name}' is int64, which a TPU computes as pairs of int32.",
                advice="Cast it to int32.",
            )
        if None in spec.shape[1:]:
            yield Finding(
                text=f"Input '{name}' has the shape {tuple(spec.shape)}: each new size compiles anew.",
                advice="Pad it to one length.",
            )
    for variable in weighed.model.variables:
        if variable.dtype == "float64":
            yield Finding(
                text=f"Variable '{variable.path}' is float64.", advice="float32 is what chips have."
            )


def _tables(model: keras.Model) -> Iterator[Finding]:
    for variable in model.trainable_variables:
        size = math.prod(variable.shape) * 4
        if size >= _LARGE_TABLE and "embedding" in variable.path.lower():
            yield Finding(
                text=f"The gradient and the optimizer touch all of '{variable.path}' in each step: "
                f"{formats.size(size)} of weights alone.",
                advice="Fewer rows (hashed buckets), or narrower ones.",
            )


def _padding(model: keras.Model, target: Target, batch: int) -> Iterator[Finding]:
    """Layers whose sizes leave much of a TPU's tiles empty."""
    lanes = target.accelerator.lanes
    found = [(math.prod(each.shape), each) for each in model.trainable_variables if len(each.shape) in (2, 4)]
    kernels = [(size, each) for size, each in found if each.name == "kernel"]
    total = sum(size for size, _ in kernels)
    lines = []
    for size, kernel in kernels:
        inside, outside = math.prod(kernel.shape[:-1]), kernel.shape[-1]
        padded = _up(inside, _SUBLANES) * _up(outside, lanes)
        waste = 1 - inside * outside / padded
        if waste > _WASTE and size >= _SHARE * total:
            lines.append(f"{kernel.path} {inside}×{outside}: {formats.percent(waste)}")
    if lines:
        more = f" and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
        yield Finding(
            text=f"Tiles of {_SUBLANES}×{lanes} stay partly empty: {'; '.join(lines[:_MOST])}{more}.",
            advice=f"The next multiple of {lanes} outputs costs the same time.",
        )
    if batch % _SUBLANES:
        waste = 1 - batch / _up(batch, _SUBLANES)
        yield Finding(
            text=f"{batch} examples a device are padded to {_up(batch, _SUBLANES)}: up to "
            f"{formats.percent(waste)} of the work is for nothing.",
            advice=f"Let --config.global_batch be a multiple of {_SUBLANES} × {target.devices} devices.",
        )


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple

"""Measures a recipe and issues its certificate."""

from collections.abc import Callable

import tensorflow as tf

from pipeline.data.feed import usage
from pipeline.data.feed.alone import Alone, first, size_of, stages_alone
from pipeline.data.feed.certificate import Certificate, Demand, Host, Line
from pipeline.data.feed.speed import Consume, Speed, measure
from pipeline.data.input.stages import Recipe

_TOGETHER = "together"


def issue(
    recipe: Recipe,
    demand: Demand,
    *,
    copy: Consume,
    seconds: float,
    on_stage: Callable[[str], None] = lambda name: None,
) -> Certificate:
    """Measures all stages of one host's recipe together, then each alone.

    Args:
      copy: takes a batch to the device; see `copy_to`.
      seconds: to measure each stage for; the certificate takes about twice as long a stage.
      on_stage: told the name of each stage before it is measured.
    """
    on_stage(_TOGETHER)  # first, so that it reuses no memory that another stage has freed
    before = usage.memory_bytes()
    together = _together(recipe)
    speed = measure(together.dataset, examples=together.examples, seconds=2 * seconds, consume=copy)
    memory_bytes = max(0, speed.memory_bytes - before)
    speeds, lines = [speed], []
    for alone in stages_alone(recipe, patience_s=seconds / 2):
        on_stage(alone.name)
        consume = copy if alone.is_copied else None
        speeds.append(measure(alone.dataset, examples=alone.examples, seconds=seconds, consume=consume))
        lines.append(_line(alone, speeds[-1]))
    return Certificate(
        stages=tuple(lines),
        together=_line(together, speed),
        host=Host(
            cores=usage.cores(),
            others_cores=sum(speed.others_cores for speed in speeds) / len(speeds),
            memory_mb=memory_bytes / 1e6,
        ),
        demand=demand,
    )


def copy_to(device: str) -> Consume:
    """Copies an element's tensors to `device`, a name of TensorFlow's; to a CPU within the host's memory."""

    def to_accelerator(tensor: tf.Tensor) -> tf.Tensor:
        with tf.device(device):
            return tf.identity(tensor)

    def in_memory(tensor: tf.Tensor) -> tf.Tensor:
        # On a CPU `identity` copies nothing. Training does not copy text either.
        return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)

    copied = in_memory if "CPU" in device.upper() else to_accelerator
    return lambda *element: tf.nest.map_structure(copied, element)


def _together(recipe: Recipe) -> Alone:
    dataset = recipe.dataset()
    size = size_of(first(dataset, 1)) / recipe.batch
    return Alone(name=_TOGETHER, dataset=dataset, examples=recipe.batch, bytes_per_example=size)


def _line(alone: Alone, speed: Speed) -> Line:
    return Line(
        name=alone.name,
        examples_per_s=speed.examples_per_s,
        cpu_us=speed.cpu_us,
        bytes_per_example=alone.bytes_per_example,
        wanted_cores=speed.wanted_cores,
    )

"""Measures a recipe and issues its certificate."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from pipeline.data.feed import cold, page_cache, usage
from pipeline.data.feed.alone import Alone, first, size_of, stages_alone
from pipeline.data.feed.certificate import Certificate, Demand, Host
from pipeline.data.feed.cold import Cold
from pipeline.data.feed.page_cache import Residency
from pipeline.data.feed.scaling import Line
from pipeline.data.feed.speed import Consume, Speed, measure
from pipeline.data.input.stages import Recipe
from pipeline.data.reading.host_cores import host_cores

_TOGETHER, _COLD = "together", "from disk"


def issue(
    recipe: Recipe,
    demand: Demand,
    *,
    copy: Consume,
    seconds: float,
    files: Residency | None = None,
    cold_files: Cold | None = None,
    on_stage: Callable[[str], None] = lambda name: None,
) -> Certificate:
    """Measures all stages of one host's recipe together, then each alone.

    Args:
      copy: takes a batch to the device; see `copy_to`.
      seconds: to measure each stage for; the certificate takes about twice as long a stage.
      files: what of the files lay in the page cache.
      cold_files: if given, all stages together are measured with these read from the disk, too.
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
    from_disk = None
    if cold_files:
        on_stage(_COLD)
        page_cache.evict(cold_files.paths)  # so that its reads are measured as a first epoch's are
        read_cold = recipe.dataset()
        speeds.append(
            cold.measure(
                read_cold,
                cold_files,
                examples=together.examples,
                seconds=2 * seconds,
                consume=copy,
            )
        )
        from_disk = dataclasses.replace(_line(together, speeds[-1]), name=_COLD, at_once=recipe.read_at_once)
    return Certificate(
        stages=tuple(lines),
        together=_line(together, speed),
        cold=from_disk,
        files=files,
        in_flight=recipe.in_flight,
        host=Host(
            cores=host_cores(),
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
        at_once=alone.at_once,
        thread=alone.thread,
    )

"""Measures a recipe and issues its certificate."""

from collections.abc import Callable

from pipeline.data.feed import usage
from pipeline.data.feed.alone import first, size_of, stages_alone
from pipeline.data.feed.certificate import Certificate, Demand, Host, Line
from pipeline.data.feed.speed import Consume, Speed, measure
from pipeline.data.recipe import Recipe

TOGETHER = "together"


def issue(
    recipe: Recipe,
    demand: Demand,
    *,
    copy: Consume,
    seconds: float,
    on_stage: Callable[[str], None] = lambda name: None,
) -> Certificate:
    """Measures every stage of one host's recipe alone, then all together.

    Args:
      copy: takes a batch to the device; see copy.py.
      seconds: to measure each stage for; the certificate takes about twice as long a stage.
      on_stage: told the name of each stage before it is measured.
    """
    on_stage(TOGETHER)  # first, so that its memory is not memory that another stage has freed
    together, memory_bytes = _together(recipe, copy, seconds)
    speeds, lines = [together[0]], []
    for alone, size in stages_alone(recipe, patience_s=seconds / 2):
        on_stage(alone.name)
        speed = measure(
            alone.dataset,
            examples=alone.examples,
            seconds=seconds,
            consume=copy if alone.is_copied else None,
        )
        speeds.append(speed)
        lines.append(_line(alone.name, speed, size))
    return Certificate(
        stages=tuple(lines),
        together=together[1],
        host=Host(
            cores=usage.cores(),
            others_cores=sum(speed.others_cores for speed in speeds) / len(speeds),
            memory_mb=memory_bytes / 1e6,
        ),
        demand=demand,
    )


def _together(recipe: Recipe, copy: Consume, seconds: float) -> tuple[tuple[Speed, Line], int]:
    before = usage.memory_bytes()
    dataset = recipe.dataset()
    speed = measure(dataset, examples=recipe.batch, seconds=2 * seconds, consume=copy)
    size = size_of(first(dataset, 1)) / recipe.batch
    return (speed, _line(TOGETHER, speed, size)), max(0, speed.memory_bytes - before)


def _line(name: str, speed: Speed, bytes_per_example: float) -> Line:
    return Line(
        name=name,
        examples_per_s=speed.examples_per_s,
        cpu_us=speed.cpu_us,
        bytes_per_example=bytes_per_example,
        wanted_cores=speed.wanted_cores,
    )

"""How many examples a second a dataset gives, and what it costs, while nothing is done with them."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from pipeline.data.feed import usage
from pipeline.data.feed.usage import Span

Consume = Callable[..., tuple]  # an element's tensors → the tensors that it becomes

WINDOWS = 5
PATIENCE = 3.0  # times the seconds asked for, where single elements take long
QUICK_ELEMENT_S = 200e-6  # below, calling for single elements costs as much as they do
GATHERED = 64  # elements called for at once, then


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """Per example, over a few windows of time."""

    examples_per_s: float  # of the median window, as if no other process had wanted the host's cores
    cpu_us: float  # an example, all threads
    wanted_cores: float  # threads that ran or were ready to
    others_cores: float  # taken by other processes meanwhile
    memory_bytes: int  # resident at most


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """A stretch of the time in which a dataset was drawn from."""

    elements: int
    span: Span
    memory_bytes: int


def measure(
    dataset: tf.data.Dataset, *, examples: int, seconds: float, consume: Consume | None = None
) -> Speed:
    """Draws elements from an endless dataset for about so many seconds.

    Args:
      examples: that an element holds.
      consume: what each element goes through as soon as it is there, as the first part of a step.
    """
    pull = puller(dataset, consume)
    count, element_s = _calibrate(pull, seconds / WINDOWS)
    if element_s < QUICK_ELEMENT_S and consume is None:
        # A window hands its elements on without copying them.
        pull = puller(dataset.window(GATHERED, drop_remainder=True))
        examples *= GATHERED
        count, _ = _calibrate(pull, seconds / WINDOWS)
    return summary(_windows(pull, count, seconds), examples)


def puller(dataset: tf.data.Dataset, consume: Consume | None = None) -> Callable[[int], None]:
    """A function that draws so many elements, in C++."""
    iterator = iter(dataset)

    @tf.function
    def draw(count: tf.Tensor) -> None:
        for _ in tf.range(count):
            next(iterator)

    @tf.function
    def draw_and_consume(count: tf.Tensor) -> object:
        last = consume(*next(iterator))  # carried along, or TensorFlow would leave out what nobody reads
        for _ in tf.range(count - 1):
            last = consume(*next(iterator))
        return last

    draw_all = draw_and_consume if consume else draw
    return lambda count: draw_all(tf.constant(count))


def _calibrate(pull: Callable[[int], None], window_s: float) -> tuple[int, float]:
    """(elements that take about so long, seconds an element); doubles as warm-up."""
    pull(1)  # traces the loop, and fills the buffers for the first time
    count = 1
    while True:
        took = min(_seconds(pull, count) for _ in range(2))  # a busy host may stop one of them for long
        if took >= window_s / 4:
            return max(1, round(count * window_s / took)), took / count
        count *= 2 if took > window_s / 16 else 4


def _seconds(pull: Callable[[int], None], count: int) -> float:
    started = time.perf_counter()
    pull(count)
    return time.perf_counter() - started


def _windows(pull: Callable[[int], None], count: int, seconds: float) -> list[Window]:
    started, windows = usage.now(), []
    before = started
    while len(windows) < WINDOWS and (not windows or before.wall_s - started.wall_s < PATIENCE * seconds):
        pull(count)
        after = usage.now()
        span = after.since(before)
        windows.append(Window(elements=count, span=span, memory_bytes=usage.memory_bytes()))
        before = after
    return windows


def summary(windows: Sequence[Window], examples: int) -> Speed:
    cores, spans = usage.cores(), [window.span for window in windows]
    wall_s = sum(span.wall_s for span in spans)
    drawn = examples * sum(window.elements for window in windows)
    return Speed(
        examples_per_s=statistics.median(
            examples * w.elements / w.span.wall_s * w.span.slowdown(cores) for w in windows
        ),
        cpu_us=1e6 * sum(span.cpu_s for span in spans) / drawn,
        wanted_cores=sum(span.wanted_cores * span.wall_s for span in spans) / wall_s,
        others_cores=sum(span.others_s for span in spans) / wall_s,
        memory_bytes=max(window.memory_bytes for window in windows),
    )

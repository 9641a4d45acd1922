"""How many examples a second a dataset gives whose files are not in the page cache, as in a first epoch."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data.feed import page_cache, usage
from pipeline.data.feed.speed import Consume, Drawn, Speed, summary, time_after

_PASSES = 3  # after a first one for warming up


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cold:
    """The files of a dataset, and how many examples read them once."""

    paths: Sequence[str]
    examples: int


def measure(
    dataset: tf.data.Dataset, files: Cold, *, examples: int, seconds: float, consume: Consume
) -> Speed:
    """Draws elements in a few passes, for about so many seconds in all; none reads the files twice.

    Before each, the files are evicted. A pass counts from its start on: on small files, filling the pipeline
    is most of it. So its share of the seconds begins when the first element is there: starting a pipeline
    takes seconds, and one element alone would bear them all.

    Args:
      examples: how many an element holds.
      consume: what each element goes through as soon as it is there.
    """
    run = _graph(dataset, consume).get_concrete_function(
        tf.TensorSpec([], tf.float64), tf.TensorSpec([], tf.int64)
    )
    most = max(1, files.examples // examples)
    elements, times, marks = [], [], []
    for _ in range(_PASSES + 1):
        marks.append(usage.now())
        page_cache.evict(files.paths)
        drawn, took = run(tf.constant(seconds / (_PASSES + 1), tf.float64), tf.constant(most, tf.int64))
        elements.append(int(drawn))
        times.append(float(took))
    span = usage.now().since(marks[1])
    return summary(Drawn(elements=elements, seconds=times, span=span, memory_bytes=0), examples)


def _graph(dataset: tf.data.Dataset, consume: Consume) -> tf.types.experimental.PolymorphicFunction:
    @tf.function(autograph=False)
    def run(seconds: tf.Tensor, most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            iterator = iter(dataset)  # ends here, as in speed.py
            first = consume(*next(iterator))
        filled = time_after(first)

        def draw_one(_: tf.Tensor, count: tf.Tensor, __: tuple) -> tuple:
            drawn = consume(*next(iterator))
            return time_after(drawn), count + 1, drawn

        now, count, last = tf.while_loop(
            lambda now, count, _: (now - filled < seconds) & (count < most),
            draw_one,
            (filled, tf.constant(1, tf.int64), first),
        )
        with tf.control_dependencies(tf.nest.flatten(last)):
            return count, now - began

    return run

"""How many examples a second a dataset gives, and at what cost, while nothing is done with them."""

import dataclasses
import statistics
import threading
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.feed import usage
from pipeline.data.feed.usage import Span, Usage
from pipeline.data.tracing import as_written

Consume = Callable[..., tuple]  # an element's tensors → the tensors that it becomes

WINDOWS = 5  # of time, after a first one for warming up
_QUICK_ELEMENT_S = 200e-6  # below, asking for a single element costs as much as the element
_GATHERED = 64  # elements that are then asked for at once
_PROBE = 0.1  # of the time is spent on finding out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """Measured over a few windows of time."""

    examples_per_s: float  # in the median window
    cpu_us: float  # of all threads, for an example
    wanted_cores: float  # mean number of threads that ran or were ready to
    others_cores: float  # taken by other processes meanwhile
    memory_bytes: int  # most that was resident


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn:
    """How drawing elements went; the first window is that of the warm-up."""

    elements: Sequence[int]  # by window
    seconds: Sequence[float]
    span: Span  # of the windows after the first: starting a pipeline takes CPU time, too
    memory_bytes: int

    @property
    def elements_per_s(self) -> float:
        """In the median window."""
        rates = [n / s for n, s in zip(self.elements, self.seconds, strict=True)]
        return statistics.median(rates[1:])

    @property
    def counted(self) -> int:
        """Elements drawn in the span."""
        return sum(self.elements[1:])


def measure(
    dataset: tf.data.Dataset, *, examples: int, seconds: float, consume: Consume | None = None
) -> Speed:
    """Draws elements from an endless dataset for about so many seconds, at least one in each window.

    Args:
      examples: how many an element holds.
      consume: what each element goes through as soon as it is there, like the first part of a step.
    """
    if consume is None and draw(dataset, _PROBE * seconds, windows=1).elements_per_s > 1 / _QUICK_ELEMENT_S:
        # A window hands its elements on without copying them.
        gathered = dataset.window(_GATHERED, drop_remainder=True).map(
            as_written(lambda *parts: (tf.constant(0),))
        )
        return summary(draw(gathered, seconds), examples * _GATHERED)
    return summary(draw(dataset, seconds, consume), examples)


def draw(
    dataset: tf.data.Dataset, seconds: float, consume: Consume | None = None, *, windows: int = WINDOWS
) -> Drawn:
    """Draws one element after the other, in C++, for so many seconds in all."""
    marks: list[Usage] = []  # when the warm-up has ended, and all
    graph = _graph(dataset, consume or (lambda *element: element), windows + 1, marks)
    run = graph.get_concrete_function(tf.TensorSpec([], tf.float64))  # traced before the clock starts
    with _PeakMemory() as peak:
        elements, times = run(tf.constant(seconds / (windows + 1), tf.float64))
    began, ended = marks
    return Drawn(
        elements=elements.numpy().tolist(),
        seconds=times.numpy().tolist(),
        span=ended.since(began),
        memory_bytes=peak.memory_bytes,
    )


def _graph(
    dataset: tf.data.Dataset, consume: Consume, windows: int, marks: list[Usage]
) -> tf.types.experimental.PolymorphicFunction:
    def mark() -> np.bool_:
        marks.append(usage.now())
        return np.bool_(True)

    def mark_if(is_now: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([after]):
            return tf.cond(is_now, lambda: tf.numpy_function(mark, [], tf.bool), lambda: tf.constant(False))

    @tf.function(autograph=False)
    def run(window_s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # Made here, so that it ends here: an iterator that is deleted from Python, which holds the
        # interpreter's lock, may wait for ever for a Python function of its own (seen in TensorFlow 2.21).
        iterator = iter(dataset)
        last = consume(*next(iterator))  # carried along, or TensorFlow would drop what nobody reads

        def draw_one(_: tf.Tensor, count: tf.Tensor, __: tuple) -> tuple:
            drawn = consume(*next(iterator))
            return time_after(drawn), count + 1, drawn

        def draw_window(
            window: tf.Tensor, before: tf.Tensor, last: tuple, elements: tf.TensorArray, times: tf.TensorArray
        ) -> tuple:
            # Once: meanwhile, the pipeline fills its buffers.
            with tf.control_dependencies([mark_if(window == 1, before)]):
                began = tf.timestamp()
            now, count, last = tf.while_loop(
                lambda now, count, _: (now - began < window_s) | (count == 0),
                draw_one,
                (began, tf.constant(0, tf.int64), last),
            )
            # Here, while the pipeline's threads live: what they waited for a core is lost with them.
            with tf.control_dependencies([mark_if(window == windows - 1, now)]):
                elements, times = elements.write(window, count), times.write(window, now - began)
            return window + 1, now, last, elements, times

        _, _, last, elements, times = tf.while_loop(
            lambda window, *_: window < windows,
            draw_window,
            (
                tf.constant(0),
                time_after(last),
                last,
                tf.TensorArray(tf.int64, windows),
                tf.TensorArray(tf.float64, windows),
            ),
        )
        with tf.control_dependencies(tf.nest.flatten(last)):
            return elements.stack(), times.stack()

    return run


def time_after(element: tuple) -> tf.Tensor:
    """The time when all of an element is there, float64 seconds."""
    with tf.control_dependencies(tf.nest.flatten(element)):
        return tf.timestamp()


class _PeakMemory:
    """The most memory that this process holds while a block runs, sampled every INTERVAL_S."""

    INTERVAL_S = 0.02

    def __enter__(self) -> "_PeakMemory":
        self.memory_bytes, self._done = usage.memory_bytes(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self.INTERVAL_S):
            self.memory_bytes = max(self.memory_bytes, usage.memory_bytes())


def summary(drawn: Drawn, examples: int) -> Speed:
    """The speed in examples, of which an element holds so many."""
    element_cpu_s = drawn.span.cpu_s / drawn.counted
    return Speed(
        examples_per_s=examples * drawn.elements_per_s,
        cpu_us=1e6 * element_cpu_s / examples,
        # At least those that the median window kept busy: where others stall the process, the mean has fewer.
        wanted_cores=max(drawn.span.wanted_cores, element_cpu_s * drawn.elements_per_s),
        others_cores=drawn.span.others_cores,
        memory_bytes=drawn.memory_bytes,
    )

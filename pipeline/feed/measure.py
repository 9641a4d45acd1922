"""Measures how many examples a second a dataset gives, and at what cost, if nothing is done with them."""

import ctypes
import dataclasses
import mmap
import os
import pathlib
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from pipeline.base.tracing import no_autograph
from pipeline.data.input import stages
from pipeline.data.input.stages import Recipe
from pipeline.data.reading.fetch import dataset_options

# --- Measures stages of a recipe one at a time, on elements held in memory, as parallel as in production.


# Elements held as a stage's input: enough to show their variety.
_HELD_BYTES = 64 << 20  # 64 MiB
_HELD_TENSORS = 512
_HELD_ELEMENTS = 64
_TAKER = "the one that takes the batches"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageFeed:
    """One stage: an endless dataset of what it gives."""

    name: str
    dataset: tf.data.Dataset
    examples: int  # examples in an element
    bytes_per_example: float  # size of an example when it leaves the stage
    at_once: float | None = None  # the most calls that run at once; None: one for each core
    thread: str = ""  # stages of the same thread run one after the other; empty: a thread of its own
    is_copied: bool = False  # each element goes to the device


class _Build(NamedTuple):
    """Builds the dataset of a stage from the elements of the stage before; from None for the first one."""

    name: str
    examples: int
    dataset_of: Callable[[tf.data.Dataset | None], tf.data.Dataset]
    at_once: float | None
    thread: str = ""


def per_stage(recipe: Recipe, *, patience_s: float) -> Iterator[StageFeed]:
    """The stages in order: read, …, batch, …, copy.

    Args:
      patience_s: the most seconds for gathering the elements that a stage gets, after the first two.
    """
    held, size = None, 0.0
    for build in _builds(recipe):
        dataset = build.dataset_of(held).with_options(dataset_options(recipe.operation_threads))
        elements = hold(dataset, patience_s)
        held = tf.data.experimental.from_list(elements).repeat()
        size = size_of(elements) / len(elements) / build.examples
        yield StageFeed(
            name=build.name,
            dataset=dataset,
            examples=build.examples,
            bytes_per_example=size,
            at_once=build.at_once,
            thread=build.thread,
        )
    yield StageFeed(
        name="copy",
        dataset=held,
        examples=recipe.batch,
        bytes_per_example=size,
        at_once=1.0,
        thread=_TAKER,
        is_copied=True,
    )


def _builds(recipe: Recipe) -> Iterator[_Build]:
    yield _Build("read", recipe.rows_read, lambda held: recipe.read(), recipe.read_at_once)
    for stage in recipe.stages:
        yield _Build(
            stage.name,
            recipe.rows_read,
            lambda held, stage=stage: stages.apply(held, [stage]),
            stage.at_once,
        )
    if recipe.rows_read != recipe.batch:
        yield _Build(
            "batch",
            recipe.batch,
            lambda held: recipe.batched(held, rows=recipe.rows_read),
            1.0,
            _TAKER if recipe.cuts_batches(recipe.rows_read) else "",
        )


def hold(dataset: tf.data.Dataset, patience_s: float) -> list[tuple]:
    """The first elements, of any shapes: two, or more where they are small and come quickly."""
    started = time.perf_counter()
    two = first_elements(dataset, 2)
    took = max(time.perf_counter() - started, 1e-9)
    tensors = max(1, len(tf.nest.flatten(two)))
    more = min(patience_s / took, _HELD_BYTES / max(1, size_of(two)), _HELD_TENSORS / tensors)
    count = min(2 * int(more), _HELD_ELEMENTS)
    return first_elements(dataset, count) if count > 2 else two


def first_elements(dataset: tf.data.Dataset, count: int) -> list[tuple]:
    """The first `count` elements, drawn in C++; `measure_speed` says why its iterator is not Python's."""

    @tf.function(autograph=False)
    def draw() -> list[tuple]:
        iterator = iter(dataset)
        # Under tracing, `next` refuses many calls: it takes them for a loop over the dataset.
        return [iterator.get_next_as_optional().get_value() for _ in range(count)]

    return draw.get_concrete_function()()


def size_of(tensors: object) -> int:
    """Bytes of all tensors, of any shape and dtype, in a nested structure; a string counts its characters."""
    return sum(_bytes(tensor) for tensor in tf.nest.flatten(tensors))


def _bytes(tensor: tf.Tensor) -> int:
    if tensor.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(np.prod(tensor.shape)) * tensor.dtype.size


# --- Linux's page cache: how much of files it holds, and how to evict them without root.


MAPS = pathlib.Path("/proc/self/maps")

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Residency:
    """Residency of local files."""

    bytes: int
    resident: float | None  # share of the bytes that the page cache holds; None: the kernel does not say


def residency(paths: Sequence[str]) -> Residency | None:
    """The residency of the files; None if one is not local."""
    try:
        sizes = [pathlib.Path(path).stat().st_size for path in paths]
    except OSError:
        return None
    # Since Linux 5.2, `mincore` says that every page is resident if this process may not write to the file.
    is_known = all(os.access(path, os.W_OK) for path in paths)
    resident = sum(map(_resident_bytes, paths)) / max(1, sum(sizes)) if is_known else None
    return Residency(bytes=sum(sizes), resident=resident)


def evict(paths: Sequence[str]) -> None:
    """Makes the kernel drop the files' pages from its cache; `residency` tells which it still keeps."""
    _unmap({os.path.realpath(path) for path in paths})
    for path in paths:
        with pathlib.Path(path).open("rb") as file:
            os.fsync(file.fileno())  # pages that are not written to the disk yet would stay in the cache
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _resident_bytes(path: str) -> int:
    size = pathlib.Path(path).stat().st_size
    if not size:
        return 0
    pages_held = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    with pathlib.Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
        first = ctypes.c_char.from_buffer(view)
        failed = _LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages_held)
        del first  # the map could not be closed before its array is gone
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    pages = np.count_nonzero(np.frombuffer(pages_held, np.uint8) & 1)
    return min(size, int(pages) * mmap.PAGESIZE)


def _unmap(files: set[str]) -> None:
    """Takes the files' pages out of this process's maps, because the kernel keeps mapped pages.

    They are read again when they are touched. Nobody writes to them: they are mapped to be read.
    """
    for line in MAPS.read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5] in files:
            start, end = (int(address, 16) for address in words[0].split("-"))
            _LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


# --- Use of the host by this process: time, cores, waiting for a core, memory.


TASKS = pathlib.Path("/proc/self/task")
HOST = pathlib.Path("/proc/stat")
MEMORY = pathlib.Path("/proc/self/statm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """Sums since some start, in seconds."""

    wall_s: float
    cpu_s: float  # CPU time of all threads
    queued_s: Mapping[int, float]  # by thread: time in which it was ready to run but no core was free
    # Time of the cores that this process may use, taken by all processes; 0 if the system does not say.
    busy_s: float

    def since(self, before: "Usage") -> "Span":
        cpu_s = self.cpu_s - before.cpu_s
        queued = sum(max(0.0, s - before.queued_s.get(thread, 0.0)) for thread, s in self.queued_s.items())
        return Span(
            wall_s=max(self.wall_s - before.wall_s, 1e-9),
            cpu_s=cpu_s,
            queued_s=queued,
            others_s=max(0.0, self.busy_s - before.busy_s - cpu_s),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    wall_s: float
    cpu_s: float
    queued_s: float
    others_s: float  # CPU seconds that other processes took of the same cores

    @property
    def busy_cores(self) -> float:
        return self.cpu_s / self.wall_s

    @property
    def wanted_cores(self) -> float:
        """Mean number of threads that ran or were ready to."""
        return (self.cpu_s + self.queued_s) / self.wall_s

    @property
    def others_cores(self) -> float:
        return self.others_s / self.wall_s


def usage_now() -> Usage:
    """Returns the usage of this process since it started, and of the host since it booted."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        wall_s=time.perf_counter(),
        cpu_s=used.ru_utime + used.ru_stime,
        queued_s=_queued_seconds(),
        busy_s=_busy_seconds(),
    )


def memory_bytes() -> int:
    """Resident memory of this process; 0 if the system does not say."""
    try:
        pages = int(MEMORY.read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _queued_seconds() -> dict[int, float]:
    """Seconds that each thread was ready to run and waited for a core, from Linux' scheduler statistics."""
    queued = {}
    for task in TASKS.glob("*"):
        try:
            queued[int(task.name)] = int((task / "schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):  # the thread has ended, or this kernel keeps no statistics
            continue
    return queued


def _busy_seconds() -> float:
    """Reads the lines of /proc/stat, in ticks, of the cores that this process may use."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        lines = (line.split() for line in HOST.read_text().splitlines())
        cores_ticks = [[int(word) for word in words[1:9]] for words in lines if words and words[0] in names]
        # This counts all but idle time, and time of waiting for a disk.
        busy = sum(sum(ticks) - ticks[3] - ticks[4] for ticks in cores_ticks)
    except (OSError, ValueError, IndexError):
        return 0.0
    return busy / os.sysconf("SC_CLK_TCK")


Consume = Callable[..., tuple]  # an element's tensors → the tensors that it becomes

WINDOWS = 5  # windows of time that count; one more before them is for warming up
_QUICK_ELEMENT_S = 200e-6  # for elements quicker than this, asking for one costs as much as the element
_GATHERED = 64  # elements that are then asked for together
_PROBE = 0.1  # share of the time in which this is found out


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speed:
    """The speed of a dataset, measured over a few windows of time."""

    examples_per_s: float  # rate in the median window
    cpu_us: float  # CPU time of all threads for an example
    wanted_cores: float  # mean number of threads that ran or were ready to
    others_cores: float  # cores that other processes took in the meantime
    memory_bytes: int  # largest resident memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn:
    """Numbers of drawn elements by window of time; the first window is the warm-up."""

    elements: Sequence[int]  # number of elements by window
    seconds: Sequence[float]
    span: Span  # the time without the first window, because starting a pipeline takes CPU time
    memory_bytes: int

    @property
    def elements_per_s(self) -> float:
        """Examples a second in the median window."""
        rates = [n / s for n, s in zip(self.elements, self.seconds, strict=True)]
        return statistics.median(rates[1:])

    @property
    def counted(self) -> int:
        """Elements drawn in the span."""
        return sum(self.elements[1:])


def measure_speed(
    dataset: tf.data.Dataset, *, examples: int, seconds: float, consume: Consume | None = None
) -> Speed:
    """Draws elements from an endless dataset for about `seconds`, at least one in each window.

    Args:
      examples: how many an element holds.
      consume: applied to each element as soon as it is there, like the first part of a step.
    """
    if (
        consume is None
        and draw_batches(dataset, _PROBE * seconds, windows=1).elements_per_s > 1 / _QUICK_ELEMENT_S
    ):
        # A window passes its elements on without copying them.
        gathered = dataset.window(_GATHERED, drop_remainder=True).map(
            no_autograph(lambda *parts: (tf.constant(0),))
        )
        return summarize(draw_batches(gathered, seconds), examples * _GATHERED)
    return summarize(draw_batches(dataset, seconds, consume), examples)


def draw_batches(
    dataset: tf.data.Dataset, seconds: float, consume: Consume | None = None, *, windows: int = WINDOWS
) -> Drawn:
    """Draws one element after the other for `seconds` in all; the loop runs in C++."""
    marks: list[Usage] = []  # usage when the warm-up ended, and at the end
    graph = _speed_graph(dataset, consume or (lambda *element: element), windows + 1, marks)
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


def _speed_graph(
    dataset: tf.data.Dataset, consume: Consume, windows: int, marks: list[Usage]
) -> tf.types.experimental.PolymorphicFunction:
    def mark() -> np.bool_:
        marks.append(usage_now())
        return np.bool_(True)

    def mark_if(is_now: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([after]):
            return tf.cond(is_now, lambda: tf.numpy_function(mark, [], tf.bool), lambda: tf.constant(False))

    @tf.function(autograph=False)
    def run(window_s: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The iterator is made here, so that it ends here. Python holds the interpreter's lock when it deletes
        # an iterator, which may then wait for ever for a Python function in the pipeline (seen in TensorFlow
        # 2.21).
        iterator = iter(dataset)
        last = consume(*next(iterator))  # carried along, because TensorFlow would drop what nobody reads

        def draw_one(_: tf.Tensor, count: tf.Tensor, __: tuple) -> tuple:
            drawn = consume(*next(iterator))
            return time_after(drawn), count + 1, drawn

        def draw_window(
            window: tf.Tensor, before: tf.Tensor, last: tuple, elements: tf.TensorArray, times: tf.TensorArray
        ) -> tuple:
            # This is one operation, during which the pipeline fills its buffers.
            with tf.control_dependencies([mark_if(window == 1, before)]):
                began = tf.timestamp()
            now, count, last = tf.while_loop(
                lambda now, count, _: (now - began < window_s) | (count == 0),
                draw_one,
                (began, tf.constant(0, tf.int64), last),
            )
            # The mark is made while the pipeline's threads live: the time that they waited for a core is lost
            # with them.
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
    """The time at which all of an element is there, float64 seconds."""
    with tf.control_dependencies(tf.nest.flatten(element)):
        return tf.timestamp()


class _PeakMemory:
    """The most memory that this process holds while a block runs, sampled every INTERVAL_S."""

    INTERVAL_S = 0.02

    def __enter__(self) -> "_PeakMemory":
        self.memory_bytes, self._done = memory_bytes(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self.INTERVAL_S):
            self.memory_bytes = max(self.memory_bytes, memory_bytes())


def summarize(drawn: Drawn, examples: int) -> Speed:
    """The speed in examples; an element holds `examples` of them."""
    element_cpu_s = drawn.span.cpu_s / drawn.counted
    return Speed(
        examples_per_s=examples * drawn.elements_per_s,
        cpu_us=1e6 * element_cpu_s / examples,
        # At least the cores that the median window kept busy: where other processes delay this one, the mean
        # has fewer.
        wanted_cores=max(drawn.span.wanted_cores, element_cpu_s * drawn.elements_per_s),
        others_cores=drawn.span.others_cores,
        memory_bytes=drawn.memory_bytes,
    )


# --- Measures the speed with files that are not in the page cache, as in a first epoch.


_PASSES = 3  # passes after a first one for warming up


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uncached:
    """The files of a dataset, and how many examples it takes to read them once."""

    paths: Sequence[str]
    examples: int


def measure_uncached(
    dataset: tf.data.Dataset, files: Uncached, *, examples: int, seconds: float, consume: Consume
) -> Speed:
    """Draws elements in a few passes, for about `seconds` in all; no pass reads the files twice.

    The files are evicted before each pass. A pass is measured from its start, because with small files most
    of it is filling the pipeline. But its share of `seconds` begins only with the first element: starting a
    pipeline takes seconds, so a pass might otherwise draw a single element.

    Args:
      examples: how many an element holds.
      consume: applied to each element as soon as it is there.
    """
    run = _uncached_graph(dataset, consume).get_concrete_function(
        tf.TensorSpec([], tf.float64), tf.TensorSpec([], tf.int64)
    )
    most = max(1, files.examples // examples)
    elements, times, marks = [], [], []
    for _ in range(_PASSES + 1):
        marks.append(usage_now())
        evict(files.paths)
        drawn, took = run(tf.constant(seconds / (_PASSES + 1), tf.float64), tf.constant(most, tf.int64))
        elements.append(int(drawn))
        times.append(float(took))
    span = usage_now().since(marks[1])
    return summarize(Drawn(elements=elements, seconds=times, span=span, memory_bytes=0), examples)


def _uncached_graph(dataset: tf.data.Dataset, consume: Consume) -> tf.types.experimental.PolymorphicFunction:
    @tf.function(autograph=False)
    def run(seconds: tf.Tensor, most: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            iterator = iter(dataset)  # made here so that it ends here, as in `draw_batches`
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

"""Distributes a host's batches to the replicas of a strategy, and notes when each was made."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import no_autograph

Make = Callable[[tf.distribute.InputContext], tf.data.Dataset]  # makes the dataset of one replica's batches
# A function in a graph, called once for each batch taken. It returns when the making of the batch began and
# when it ended, both float64 [] seconds.
Making = Callable[[], tuple[tf.Tensor, tf.Tensor]]

_MOST_AHEAD = 1 << 10  # batches that are made and not yet taken: tf.data and a strategy hold a few


def distributed(strategy: tf.distribute.Strategy, make: Make) -> Iterable:
    """An iterable of batches, each with the shares of this host's replicas.

    On a single CPU it is the dataset itself: there is no device to copy batches to, and TensorFlow's
    distribution takes 0.3 ms of CPU time for each batch (2.21, measured: a twelfth of a step of
    `adult_wide_deep.py`).
    """
    if isinstance(strategy, tf.distribute.OneDeviceStrategy) and _is_cpu(strategy):
        return make(tf.distribute.InputContext())
    return strategy.distribute_datasets_from_function(make)


def timed(
    strategy: tf.distribute.Strategy,
    make: Make,
    *,
    is_deterministic: bool = False,
    timestamp: Callable[[], tf.Tensor] = tf.timestamp,
) -> tuple[Iterable, Making | None]:
    """Returns what `distributed` returns, and a function for the times at which each batch was made; that is
    before it is asked for, unless input is slow.

    The time of taking a batch would not tell this: handing over a batch that is ready takes 100 µs, or
    milliseconds if other work has the cores.

    The function is None on a TPU, whose host may be another machine, and under determinism, which forbids the
    clock.

    Args:
      timestamp: seconds, float64 [], in the graph.
    """
    if is_deterministic or isinstance(strategy, tf.distribute.TPUStrategy):
        return distributed(strategy, make), None
    with tf.init_scope(), tf.device("CPU:0"):
        times = tf.queue.FIFOQueue(_MOST_AHEAD, tf.float64, [[2]])
    replicas = len(strategy.extended.worker_devices)
    clock = tf.data.Dataset.range(tf.int64.max).map(no_autograph(lambda _: timestamp()))

    @no_autograph
    def stamped(since: tf.Tensor, batch: tuple) -> tuple:
        with tf.control_dependencies([times.enqueue(tf.stack([since, timestamp()]))]):
            return tf.nest.map_structure(tf.identity, batch)

    def make_stamped(context: tf.distribute.InputContext) -> tf.data.Dataset:
        # `zip` asks for the time first, then for the batch. The prefetch does so in a thread of its own,
        # ahead of the consumer; without it, a batch would be made only when it is taken.
        return tf.data.Dataset.zip(clock, make(context)).map(stamped).prefetch(1)

    def making() -> tuple[tf.Tensor, tf.Tensor]:
        taken = times.dequeue_many(replicas)
        return tf.reduce_min(taken[:, 0]), tf.reduce_max(taken[:, 1])

    return distributed(strategy, make_stamped), making


def _is_cpu(strategy: tf.distribute.Strategy) -> bool:
    return tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type == "CPU"


# --- Guards against a step that is compiled again for each new shape of its batch.


_Shapes = dict[tuple[str, int], tuple]
_OF_BATCH = ("", "label", "mask")  # names of the parts of a batch; the inputs have names of their own


def require_known_shapes(batches: tf.TypeSpec) -> None:
    """Raises InputError where a size of a feature, other than the batch size, is known only at run time.

    Args:
      batches: the element_spec of (inputs, …).
    """
    for (name, _), shape in _shapes(batches).items():
        if None in shape[1:]:
            raise InputError(
                f"model input '{name}'",
                received=f"batches of shape {_format(shape)}",
                expected="sizes that are the same in every batch: a step would be compiled anew for each",
                action="Pad or cut it to one size in the preprocessing.",
            )


def traced_once(function: Callable, *, thing: str) -> Callable:
    """Wraps `function` for tf.function: a second trace raises an InputError that names what came in another
    shape.

    Args:
      function: takes (inputs, …), nests of tensors.
      thing: what is traced, for the message.
    """
    before: list[_Shapes] = []

    def traced(*batch: object) -> object:
        now = _shapes(batch)
        if before and now != before[0]:
            raise _changed(thing, before[0], now)
        before.append(now)
        return function(*batch)

    return traced


def _changed(thing: str, was: _Shapes, now: _Shapes) -> InputError:
    changed = next(key for key in {**was, **now} if was.get(key) != now.get(key))
    return InputError(
        f"{thing}, model input '{changed[0]}'",
        received=f"a batch of {_format(now.get(changed))} after batches of {_format(was.get(changed))}",
        expected="the same shape and type each time: it would be compiled anew",
        action="Pad or cut it to one size in the preprocessing.",
    )


def _shapes(nest: object) -> _Shapes:
    """(sizes…, dtype) of everything in a nest, by its name there and its replica: ('age', 0)."""
    found: _Shapes = {}
    for name, replica, part in _named(nest, ""):
        found[name, replica] = (*_sizes(part.shape), part.dtype.name)
    return found


def _named(nest: object, name: str) -> Iterator[tuple[str, int, tf.TensorSpec]]:
    if isinstance(nest, Mapping):
        for key, part in nest.items():
            yield from _named(part, str(key))
    elif isinstance(nest, tuple | list):
        for number, part in enumerate(nest):
            yield from _named(part, name or _OF_BATCH[min(number, len(_OF_BATCH) - 1)])
    else:
        for replica, part in enumerate(tf.nest.flatten(nest, expand_composites=True)):
            yield name or "input", replica, part


def _sizes(shape: tf.TensorShape) -> tuple:
    return tuple(shape) if shape.rank is not None else (None, None)


def _format(shape: tuple | None) -> str:
    if shape is None:
        return "nothing"
    *sizes, dtype = shape
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}] {dtype}"

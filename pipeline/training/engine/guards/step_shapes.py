"""Guards against a step that would be compiled anew again and again, for each new shape of its batch."""

from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from pipeline.data.errors import InputError

_Shapes = dict[tuple[str, int], tuple]
_OF_BATCH = ("", "label", "mask")  # the inputs have names of their own


def require_known(batches: tf.TypeSpec) -> None:
    """Raises InputError where a size of a feature, other than that of the batch, is known at run time only.

    Args:
      batches: the element_spec of (inputs, …).
    """
    for (name, _), shape in _shapes(batches).items():
        if None in shape[1:]:
            raise InputError(
                f"model input '{name}'",
                received=f"batches of shape {_told(shape)}",
                expected="sizes that are the same in every batch: a step would be compiled anew for each",
                action="Pad or cut it to one size in the preprocessing.",
            )


def traced_once(function: Callable, *, thing: str) -> Callable:
    """`function` for tf.function; a second trace raises InputError that names what came in another shape.

    Args:
      function: of (inputs, …), nests of tensors.
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
        received=f"a batch of {_told(now.get(changed))} after batches of {_told(was.get(changed))}",
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


def _told(shape: tuple | None) -> str:
    if shape is None:
        return "nothing"
    *sizes, dtype = shape
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}] {dtype}"

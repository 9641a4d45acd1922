"""Arrays that the gate gets, checked one by one; each raises InputError and names the first bad row."""

import numpy as np

from pipeline.data.errors import InputError

_LARGEST = float(
    np.finfo(np.float32).max
)  # what datasets and exports hold; sums of its fourth powers overflow not
_ROUNDING = 1e-5  # that a softmax may be beyond 1
_OFF_ONE = 0.02  # that probabilities may add up to besides 1: bfloat16 has 8 bits


def rows(name: str, array: np.ndarray) -> None:
    """One dimension and one row at least."""
    if np.ndim(array) != 1 or not len(array):
        raise _error(
            name, f"shape {list(np.shape(array))}", "one number for each example, and one example at least"
        )


def as_many_rows(name: str, array: np.ndarray, number: int) -> None:
    if not np.ndim(array) or len(array) != number:
        raise _error(name, f"shape {list(np.shape(array))}", f"{number:,} rows, as there are labels")


def values(name: str, array: np.ndarray) -> None:
    """Finite numbers, [n] or [n, 1]."""
    if np.ndim(array) > 2 or np.shape(array)[1:] not in ((), (1,)):
        raise _error(name, f"shape {list(np.shape(array))}", "one value for each example")
    _finite(name, array)


def probabilities(name: str, array: np.ndarray, *, classes: int, binary: bool) -> None:
    """Of `classes`, [n, classes], or of the positive one of two, [n]."""
    shape = np.shape(array)
    fits = shape[1:] in (((), (2,)) if binary else ((classes,),)) and classes > 1
    if not fits:
        expected = "[n] or [n, 2]" if binary else f"[n, {max(classes, 2)}]"
        raise _error(name, f"shape {list(shape)}", f"probabilities of shape {expected}")
    _finite(name, array)
    outside = (array < -_ROUNDING) | (array > 1 + _ROUNDING)
    _none(name, array, outside.reshape(len(array), -1).any(axis=1), "probabilities from 0 to 1")
    if len(shape) == 2:
        sums = array.sum(axis=1, dtype=np.float64)
        _none(name, array, np.abs(sums - 1) > _OFF_ONE, "probabilities that add up to 1")


def classes(name: str, array: np.ndarray, number: int) -> None:
    """Class indices, [n]."""
    _finite(name, array)
    wrong = (array < 0) | (array >= number) | (array != np.floor(array))
    _none(name, array, wrong, f"class indices from 0 to {number - 1}")


def prior(value: float | np.ndarray | None, number: int) -> None:
    """Rates of `number` classes, or of the positive one of two; a mean where there are no classes."""
    if value is None:
        return
    shape = np.shape(value)
    if shape not in ([(), (2,)] if number == 2 else [(number,)] if number else [()]):
        expected = f"{number} rates" if number else "one mean"
        raise _error("prior", f"shape {list(shape)}", expected)
    _finite("prior", np.atleast_1d(value))
    rates = np.asarray(value, np.float64)
    if number and not (
        rates.min() >= 0 and rates.max() <= 1 and (not shape or abs(rates.sum() - 1) <= _OFF_ONE)
    ):
        raise _error("prior", np.array2string(rates, threshold=10), "rates from 0 to 1 that add up to 1")


def weights(array: np.ndarray) -> None:
    rows("weights", array)
    _finite("weights", array)
    _none("weights", array, array < 0, "numbers from 0 on")
    if not np.any(array > 0):
        raise _error("weights", "0 for all examples", "one above 0 at least")


def clusters(array: np.ndarray) -> None:
    rows("clusters", array)
    if np.asarray(array).dtype.kind in "fc":
        _finite("clusters", array)
    try:
        np.unique(array)
    except TypeError as error:
        raise _error("clusters", f"values that cannot be sorted ({error})", "values of one type") from None


def texts(name: str, array: np.ndarray) -> None:
    rows(name, array)
    if np.asarray(array).dtype.kind in "UT":
        return
    is_text = np.fromiter((isinstance(value, str) for value in array), bool, len(array))
    _none(name, array, ~is_text, "text")


def _finite(name: str, array: np.ndarray) -> None:
    array = np.asarray(array)
    if array.dtype.kind in "OUSTMmc":
        raise _error(name, f"an array of {array.dtype}", "an array of numbers")
    beyond = ~(np.abs(array) <= _LARGEST)  # NaN too
    _none(name, array, beyond.reshape(len(array), -1).any(axis=1), "finite float32 numbers")


def _none(name: str, array: np.ndarray, wrong: np.ndarray, expected: str) -> None:
    """Raises InputError if a row is wrong; `wrong` is bool [n]."""
    if wrong.any():
        row = int(np.argmax(wrong))
        shown = _shown(np.asarray(array)[row : row + 1].tolist()[0])
        raise _error(name, f"{shown} in row {row:,} ({int(wrong.sum()):,} such rows)", expected)


def _shown(value: object) -> str:
    """A cell, or the first of a row of cells."""
    if isinstance(value, list):
        return f"[{', '.join(f'{one:g}' for one in value[:5])}{', …' if len(value) > 5 else ''}]"
    return repr(value)


def _error(name: str, received: str, expected: str) -> InputError:
    return InputError(
        f"{name} that the gate gets",
        received=received,
        expected=expected,
        action="Correct what was scored, or how it was read.",
    )

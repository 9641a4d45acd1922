"""Copies of variables in the host's memory, taken between two steps, and put back."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.errors import InputError

Variable = keras.Variable | tf.Variable


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variables:
    """Variables by what they belong to, such as `model` and `optimizer`, in an order that is always the same.

    Names that Keras gives depend on what a process built before. So a variable is known by its place.
    """

    groups: Mapping[str, Sequence[Variable]]

    def paths(self) -> dict[str, str]:
        """What Keras calls each variable, by its name in a checkpoint."""
        return {name: getattr(each, "path", each.name) for name, each in self._named().items()}

    def copied(self) -> dict[str, np.ndarray]:
        """Their values now. Every replica has the same; the first one's are taken."""
        return {name: tf.convert_to_tensor(each).numpy() for name, each in self._named().items()}

    def assign(self, values: Mapping[str, np.ndarray], *, checkpoint: object) -> None:
        """Sets them, all or none.

        Raises:
          InputError: a value is missing, or has another shape or dtype; or a group has more values.
        """
        named = self._named()
        spare = [name for name in values if name.partition("/")[0] in self.groups and name not in named]
        problems = [problem for name, each in named.items() if (problem := _misfit(name, each, values))]
        problems += [f"{name}, which the model here does not have" for name in spare]
        if problems:
            raise InputError(
                f"checkpoint {checkpoint}",
                received=f"content that does not fit this model ({problems[0]})",
                expected="variables of the same number, shapes and types",
                action="Train in an empty --workdir, or with the config that this one was started with.",
            )
        for name, each in named.items():
            each.assign(values[name])

    def not_finite(self, values: Mapping[str, np.ndarray]) -> str:
        """The path of the first variable whose value is infinite or not a number; empty where none is."""
        paths = self.paths()
        return next((paths[name] for name, value in values.items() if not _is_finite(value)), "")

    def _named(self) -> dict[str, Variable]:
        return {
            f"{group}/{number:04d}": each
            for group, variables in self.groups.items()
            for number, each in enumerate(variables)
        }


def _misfit(name: str, variable: Variable, values: Mapping[str, np.ndarray]) -> str:
    path = f"{name}, {getattr(variable, 'path', variable.name)}"
    if name not in values:
        return f"no {path}"
    is_, was = (tuple(variable.shape), tf.as_dtype(variable.dtype).name), values[name]
    if is_ != (was.shape, tf.as_dtype(was.dtype).name):
        return f"{path}: {was.dtype} {list(was.shape)} where the model here has {is_[1]} {list(is_[0])}"
    return ""


def _is_finite(value: np.ndarray) -> bool:
    if not tf.as_dtype(value.dtype).is_floating:
        return True
    with np.errstate(all="ignore"):
        # One pass without a copy: a sum is finite where all are, unless large values overflow.
        return bool(np.isfinite(np.sum(value))) or bool(np.all(np.isfinite(value)))

"""What numbers of a config may be. Others would train in silence, or fail late; they are refused at once."""

import decimal
from collections.abc import Callable, Mapping

from ml_collections import ConfigDict

from pipeline.data.errors import InputError

_MOST_STEPS = 2**31 - 1  # counted in int32 by the devices
_MOST_EXAMPLES = 2**31 - 1  # of a batch: they are counted in int32
_SEEDS = 2**32  # NumPy's

# By key: whether a value will do, and in words what does. NaN fails every comparison.
_RULES: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "seed": (lambda value: 0 <= value < _SEEDS, f"a whole number from 0 to {_SEEDS - 1:,}"),
    "global_batch": (lambda value: 1 <= value <= _MOST_EXAMPLES, f"1 to {_MOST_EXAMPLES:,} examples"),
    "train.steps": (lambda value: 0 <= value <= _MOST_STEPS, f"0 (as train.epochs says) to {_MOST_STEPS:,}"),
    "train.weight": (lambda value: 0 < value < float("inf"), "a positive number"),
    "optimizer.learning_rate": (lambda value: 0 <= value < float("inf"), "0 or a positive number"),
    "optimizer.weight_decay": (lambda value: 0 <= value < float("inf"), "0 or a positive number"),
    "optimizer.momentum": (lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    "optimizer.warmup_steps": (lambda value: value >= 0, "0 or more"),
    "evaluation.every_epochs": (lambda value: value >= 1, "1 or more"),
}


def check(config: ConfigDict) -> None:
    """Raises InputError for the first number that a run cannot have."""
    for key, (will_do, expected) in _RULES.items():
        section, _, name = key.rpartition(".")
        value = (config[section] if section else config).get(name)
        if value is not None and not will_do(value):
            raise _error(key, value, expected)


def check_length(steps: int) -> None:
    """Raises InputError for a run that is longer than its steps can be counted."""
    if steps > _MOST_STEPS:
        raise _error("train.epochs", f"{decimal.Decimal(steps):.3g} steps", f"at most {_MOST_STEPS:,} steps")


def _error(key: str, received: object, expected: str) -> InputError:
    return InputError(
        f"--config.{key}",
        received=received,
        expected=expected,
        action="Correct it in the config file or on the command line.",
    )

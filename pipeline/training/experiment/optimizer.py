"""The optimizer and its learning rate, from a config."""

from collections.abc import Callable, Mapping, Sequence

import keras
from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import fused_adam
from pipeline.training.experiment.learning_rate import SCHEDULES, WarmedUp
from pipeline.training.experiment.variable_names import matching

# Decaying scales and offsets only shrinks the signal (Goyal et al. 2017, section 5.3, leave them out too).
_NOT_DECAYED = ("bias", "gamma", "beta")


def build(
    config: ConfigDict, variables: Sequence[keras.Variable], *, total_steps: int, precision: Precision
) -> keras.optimizers.Optimizer:
    """Makes the optimizer `config.name` of `variables`; raises InputError for an unknown name or schedule,
    and for a pattern of `config.not_decayed` that no variable's path matches.

    Weight decay is decoupled from the gradient (Loshchilov & Hutter 2019), and scaled by the learning rate.
    """
    if config.name not in _OPTIMIZERS:
        raise _unknown("name", config.name, tuple(_OPTIMIZERS))
    _require_norm(config.clip_norm)
    optimizer = _OPTIMIZERS[config.name](config, _learning_rate(config, total_steps))
    optimizer.global_clipnorm = config.clip_norm or None
    named = matching(config.get("not_decayed", ()), variables, key="optimizer.not_decayed")
    usual = [each for each in variables if _is_not_decayed(each)]
    optimizer.exclude_from_weight_decay(var_list=[*usual, *named])
    whole = keras.optimizers.LossScaleOptimizer(optimizer) if precision.needs_loss_scaling else optimizer
    whole.build(variables)
    return whole


def has_schedule(config: ConfigDict, total_steps: int) -> bool:
    """Whether the learning rate follows a schedule: then no callback can set it."""
    return not isinstance(_learning_rate(config, total_steps), float)


def warmup_warning(config: ConfigDict, total_steps: int) -> str:
    """Says that `warmup_steps`, which know no length of a run, take most of it; empty where they do not."""
    warmup = min(config.warmup_steps, total_steps - 1)
    if config.get("warmup_part", 0.0) or 2 * warmup <= total_steps:
        return ""
    return (
        f"the learning rate rises in {warmup:,} of the {total_steps:,} steps (config.optimizer.warmup_steps="
        f"{config.warmup_steps}); --config.optimizer.warmup_part=0.05 warms up for a part of any run"
    )


def _is_not_decayed(variable: keras.Variable) -> bool:
    # By its own name: Keras's var_names would leave out whatever has such a word in its layer's name.
    return variable.path.rsplit("/", 1)[-1] in _NOT_DECAYED


_LearningRate = float | keras.optimizers.schedules.LearningRateSchedule

_OPTIMIZERS: Mapping[str, Callable[[ConfigDict, _LearningRate], keras.optimizers.Optimizer]] = {
    "adamw": lambda config, rate: fused_adam.AdamW(rate, weight_decay=config.weight_decay),
    "adam": lambda config, rate: fused_adam.Adam(rate),
    "sgd": lambda config, rate: keras.optimizers.SGD(
        rate, momentum=config.momentum, weight_decay=config.weight_decay or None
    ),
}


def _learning_rate(config: ConfigDict, total_steps: int) -> _LearningRate:
    if config.schedule not in SCHEDULES:
        raise _unknown("schedule", config.schedule, tuple(SCHEDULES))
    warmup = min(_warmup_steps(config, total_steps), total_steps - 1)
    if config.schedule == "constant" and warmup <= 0:
        return config.learning_rate  # a number, which ReduceLROnPlateau can set
    return WarmedUp(config.schedule, peak=config.learning_rate, warmup=max(0, warmup), total=total_steps)


def _warmup_steps(config: ConfigDict, total_steps: int) -> int:
    part = config.get("warmup_part", 0.0)
    if not 0 <= part < 1:
        raise InputError(
            "--config.optimizer.warmup_part",
            received=part,
            expected="a part of the run, from 0 (warmup_steps counts) to below 1, such as 0.05",
            action="Correct it in the config file or on the command line.",
        )
    return round(part * total_steps) if part else config.warmup_steps


def _require_norm(norm: float) -> None:
    if not norm >= 0:
        raise InputError(
            "--config.optimizer.clip_norm",
            received=norm,
            expected="a positive norm, or 0 for no clipping",
            action="Correct it in the config file or on the command line.",
        )


def _unknown(field: str, received: str, known: tuple[str, ...]) -> InputError:
    return InputError(
        f"--config.optimizer.{field}",
        received=repr(received),
        expected=f"one of {', '.join(known)}",
        action=did_you_mean(
            received, known, otherwise="Choose one of these in the config file or on the command line."
        ),
    )

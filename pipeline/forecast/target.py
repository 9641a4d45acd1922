"""The slices of accelerators that `--target` names."""

import dataclasses
import re
from collections.abc import Sequence

from pipeline.base import accelerators
from pipeline.base.accelerators import ACCELERATORS, Accelerator
from pipeline.base.errors import InputError, did_you_mean

_KNOWN = tuple(each.target for each in ACCELERATORS if each.target)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A slice: `topology` is the compiler's name of a TPU slice, such as v5e:2x4, or empty for GPUs."""

    name: str
    accelerator: Accelerator
    devices: int
    topology: str = ""

    @property
    def generation(self) -> str:
        """What a `--target` calls the accelerator, such as v5e."""
        return self.accelerator.target

    @property
    def chips(self) -> int:
        """The chips of the slice, by which it is rented."""
        return self.devices // self.accelerator.devices_a_chip

    @property
    def shape(self) -> tuple[int, ...]:
        """The chips of each axis of a TPU slice, such as (2, 4); () for GPUs."""
        _, _, shape = self.topology.partition(":")
        return tuple(map(int, shape.split("x"))) if shape else ()


def targets_of(names: Sequence[str]) -> tuple[Target, ...]:
    """The targets of a flag, each once; raises InputError where one is not known or has another form."""
    return tuple(_target(name) for name in dict.fromkeys(name.strip().lower() for name in names))


def _target(text: str) -> Target:
    name, _, shape = text.lower().partition(":")
    accelerator = accelerators.of_target(name)
    if accelerator is None:
        action = did_you_mean(name, _KNOWN, otherwise="Correct it.")
        raise _wrong(text, f"one of {', '.join(_KNOWN)}, with its size: v5e:2x4, h100:8", action)
    if not accelerator.is_tpu:
        if not re.fullmatch(r"[1-9]\d{0,4}", shape):
            raise _wrong(text, f"a number of devices, as in {name}:8", "Say how many there are.")
        return Target(name=text, accelerator=accelerator, devices=int(shape))
    chips = accelerators.chips_of(accelerator, shape)
    if chips is None:
        axes = accelerator.axes
        one, many = ("x".join([size] * axes) for size in "12")
        raise _wrong(
            text,
            f"a topology of {axes} axes: {name}:{one} for a chip, or hosts of 2x2 chips, as in {name}:{many}",
            "See the cloud's list of slices.",
        )
    return Target(
        name=text,
        accelerator=accelerator,
        devices=chips * accelerator.devices_a_chip,
        topology=f"{name}:{shape}",
    )


def _wrong(received: str, expected: str, action: str) -> InputError:
    return InputError("--target", received=repr(received), expected=expected, action=action)

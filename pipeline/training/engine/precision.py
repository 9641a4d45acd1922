"""Chooses the number format to compute in, by what the hardware does natively, and says why.

Variables and logits stay float32 under every policy.
"""

import contextlib
import dataclasses
from collections.abc import Iterator

import keras
import tensorflow as tf

from pipeline.base import machine
from pipeline.base.errors import InputError

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")
_CPU_BFLOAT16_FLAGS = ("amx_bf16", "avx512_bf16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hardware:
    """The facts known about the devices on which the step runs."""

    kind: str  # "CPU", "GPU" or "TPU"
    name: str = ""
    compute_capability: tuple[int, int] = (0, 0)  # compute capability of the least capable GPU
    cpu_flags: frozenset[str] = frozenset()

    @property
    def bfloat16(self) -> str:
        """The part of the hardware that computes bfloat16 natively; empty if none does."""
        if self.kind == "TPU":
            return "TPU"
        if self.kind == "GPU":
            return f"GPU of {self._capability}" if self.compute_capability >= (8, 0) else ""
        found = [flag for flag in _CPU_BFLOAT16_FLAGS if flag in self.cpu_flags]
        return f"CPU with {found[0]}" if found else ""

    @property
    def float16(self) -> str:
        """The part of the hardware that computes float16 natively; empty if none does."""
        return f"GPU of {self._capability}" if self.compute_capability >= (7, 0) else ""

    @property
    def _capability(self) -> str:
        return "compute capability {}.{}".format(*self.compute_capability)

    def __str__(self) -> str:
        return self.name or (f"GPU of {self._capability}" if self.kind == "GPU" else self.kind)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Precision:
    """A Keras dtype policy and why it is used."""

    policy: str
    reason: str
    warning: str = ""

    @property
    def needs_loss_scaling(self) -> bool:
        """float16's smallest normal number is 6e-5: unscaled gradients would vanish."""
        return self.policy == "mixed_float16"

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Layers that are made inside the block compute with this policy."""
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.policy)
        try:
            yield
        finally:
            keras.config.set_dtype_policy(before)


FLOAT32 = Precision(policy="float32", reason="to compare with")


def choose(requested: str, hardware: Hardware) -> Precision:
    """Resolves `auto`, and warns where a request would be emulated.

    Raises:
      InputError: `requested` is neither `auto` nor one of POLICIES.
    """
    if requested == "auto":
        return _best(hardware)
    if requested not in POLICIES:
        raise InputError(
            "--precision",
            received=repr(requested),
            expected=f"auto, {', '.join(POLICIES)}",
            action="Choose one of these; auto takes what the hardware does natively.",
        )
    return Precision(policy=requested, reason="asked for", warning=_warning(requested, hardware))


def detect(strategy: tf.distribute.Strategy) -> Hardware:
    """The hardware under a strategy's replicas."""
    kind = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type
    if kind == "GPU":
        details = [
            tf.config.experimental.get_device_details(gpu) for gpu in tf.config.list_physical_devices(kind)
        ]
        weakest = min(details, key=lambda detail: detail["compute_capability"])
        return Hardware(
            kind=kind, name=weakest["device_name"], compute_capability=weakest["compute_capability"]
        )
    # Systems other than Linux give no flags, so no native format is assumed there.
    flags = machine.processor("flags") if kind == "CPU" else ""
    return Hardware(kind=kind, cpu_flags=frozenset(flags.split()))


def _best(hardware: Hardware) -> Precision:
    if hardware.bfloat16:
        return Precision(policy="mixed_bfloat16", reason=f"{hardware.bfloat16} computes bfloat16 natively")
    if hardware.float16:
        return Precision(
            policy="mixed_float16", reason=f"{hardware.float16} computes float16 natively, but not bfloat16"
        )
    return Precision(policy="float32", reason=f"{hardware} computes no 16-bit format natively")


def _warning(policy: str, hardware: Hardware) -> str:
    is_native = {"float32": True, "mixed_bfloat16": hardware.bfloat16, "mixed_float16": hardware.float16}
    if is_native[policy]:
        return ""
    best = _best(hardware).policy
    return f"{policy} is emulated on this {hardware}, and slow; --precision={best} is native"

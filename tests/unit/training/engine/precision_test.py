"""What `auto` chooses on each kind of hardware, and when a request is warned about."""

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.engine import precision
from pipeline.training.engine.precision import Hardware, Precision

V100 = Hardware(kind="GPU", compute_capability=(7, 0))
T4 = Hardware(kind="GPU", compute_capability=(7, 5))
A100 = Hardware(kind="GPU", compute_capability=(8, 0))
P100 = Hardware(kind="GPU", compute_capability=(6, 0))
SAPPHIRE_RAPIDS = Hardware(kind="CPU", cpu_flags=frozenset({"avx2", "avx512_bf16", "amx_bf16"}))
COOPER_LAKE = Hardware(kind="CPU", cpu_flags=frozenset({"avx2", "avx512_bf16"}))
LAPTOP = Hardware(kind="CPU", cpu_flags=frozenset({"avx2"}))


@pytest.mark.parametrize(
    ("hardware", "policy", "reason"),
    [
        (Hardware(kind="TPU"), "mixed_bfloat16", "TPU computes bfloat16 natively"),
        (A100, "mixed_bfloat16", "GPU of compute capability 8.0 computes bfloat16 natively"),
        (T4, "mixed_float16", "GPU of compute capability 7.5 computes float16 natively, but not bfloat16"),
        (V100, "mixed_float16", "GPU of compute capability 7.0 computes float16 natively, but not bfloat16"),
        (P100, "float32", "GPU of compute capability 6.0 computes no 16-bit format natively"),
        (SAPPHIRE_RAPIDS, "mixed_bfloat16", "CPU with amx_bf16 computes bfloat16 natively"),
        (COOPER_LAKE, "mixed_bfloat16", "CPU with avx512_bf16 computes bfloat16 natively"),
        (LAPTOP, "float32", "CPU computes no 16-bit format natively"),
    ],
)
def test_auto_takes_what_the_hardware_does_natively(hardware, policy, reason):
    assert precision.choose("auto", hardware) == Precision(policy=policy, reason=reason)


@pytest.mark.parametrize("hardware", [T4, V100])
def test_bfloat16_on_an_older_gpu_is_warned_about(hardware):
    chosen = precision.choose("mixed_bfloat16", hardware)
    assert chosen.policy == "mixed_bfloat16"
    assert "emulated" in chosen.warning
    assert "--precision=mixed_float16 is native" in chosen.warning


def test_native_requests_pass_without_a_warning():
    assert precision.choose("mixed_bfloat16", A100).warning == ""
    assert precision.choose("float32", LAPTOP).warning == ""


def test_unknown_precision_is_refused():
    with pytest.raises(InputError, match=r"--precision: received 'int8'; expected auto, float32"):
        precision.choose("int8", LAPTOP)


def test_scope_puts_the_policy_back():
    before = keras.config.dtype_policy()
    with Precision(policy="mixed_bfloat16", reason="").scope():
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    assert keras.config.dtype_policy() == before


def test_only_float16_needs_loss_scaling():
    needing = [
        policy for policy in precision.POLICIES if Precision(policy=policy, reason="").needs_loss_scaling
    ]
    assert needing == ["mixed_float16"]

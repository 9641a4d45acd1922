"""Peaks of accelerators, by the name that the driver or the machine gives them.

Dense, without sparsity: NVIDIA's data sheets print twice these figures for the newer ones, "with sparsity".
"""

import dataclasses
import os
import re

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Peak:
    """Of one chip: `teraflops` of bfloat16, or of float16 where a chip has no bfloat16."""

    name: str
    pattern: str  # of the device's name; the first that fits counts
    teraflops: float
    source: str  # document, and its date


_NVIDIA = "NVIDIA, {} data sheet, {}"
_GOOGLE = "Google Cloud, TPU system architecture, {}, 2025"
PEAKS = (
    Peak(name="H200 NVL", pattern="H200 NVL", teraflops=835, source=_NVIDIA.format("H200", "2024")),
    Peak(name="H200 SXM", pattern="H200", teraflops=989, source=_NVIDIA.format("H200", "2024")),
    Peak(name="H100 PCIe", pattern="H100 PCIe", teraflops=756, source=_NVIDIA.format("H100", "2023")),
    Peak(name="H100 NVL", pattern="H100 NVL", teraflops=835, source=_NVIDIA.format("H100", "2024")),
    Peak(name="H100 SXM", pattern="H100", teraflops=989, source=_NVIDIA.format("H100", "2023")),
    Peak(name="A100", pattern="A100", teraflops=312, source=_NVIDIA.format("A100", "2021")),
    Peak(name="L4", pattern=r"L4\b", teraflops=121, source=_NVIDIA.format("L4", "2023")),
    Peak(name="T4 (float16)", pattern=r"T4\b", teraflops=65, source=_NVIDIA.format("T4", "2019")),
    Peak(
        name="V100 PCIe (float16)", pattern="V100.*PCIE", teraflops=112, source=_NVIDIA.format("V100", "2020")
    ),
    Peak(name="V100 SXM2 (float16)", pattern="V100", teraflops=125, source=_NVIDIA.format("V100", "2020")),
    Peak(name="TPU v4", pattern=r"^v4-", teraflops=275, source=_GOOGLE.format("v4")),
    Peak(name="TPU v5e", pattern=r"^v5(e|litepod)-", teraflops=197, source=_GOOGLE.format("v5e")),
    Peak(name="TPU v5p", pattern=r"^v5p-", teraflops=459, source=_GOOGLE.format("v5p")),
    Peak(name="TPU v6e", pattern=r"^v6e-", teraflops=918, source=_GOOGLE.format("v6e")),
)


def peak_of(name: str) -> Peak | None:
    """By a GPU's name, as `NVIDIA A100-SXM4-40GB`, or a TPU's type, as `v5litepod-8`; None: not known."""
    return next((peak for peak in PEAKS if re.search(peak.pattern, name, re.IGNORECASE)), None)


def accelerator_of(strategy: tf.distribute.Strategy) -> str:
    """What the strategy computes on: the name of a GPU, the type of a TPU, or `CPU`.

    All GPUs of a run are taken to be like its first.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        # Of a TPU VM; TensorFlow's device names do not tell the generation.
        return os.environ.get("TPU_ACCELERATOR_TYPE", "TPU")
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "CPU"
    return tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")

"""A peak is found by the name that a driver gives; what is not in the table has none."""

import pytest
import tensorflow as tf

from pipeline.training.engine.measures import PEAKS, accelerator_of, peak_of


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla V100-PCIE-32GB", 112),
        ("v4-8", 275),
        ("v5litepod-8", 197),
        ("v5p-16", 459),
        ("v6e-4", 918),
    ],
)
def test_known_names(name, teraflops):
    assert peak_of(name).teraflops == teraflops


@pytest.mark.parametrize("name", ["CPU", "TPU", "NVIDIA L40S", "NVIDIA T400", "NVIDIA GeForce RTX 4090", ""])
def test_others_have_none(name):
    assert peak_of(name) is None


def test_each_peak_has_a_dated_source():
    assert all(peak.source[-4:].isdigit() for peak in PEAKS)


def test_this_machine_is_named():
    named = accelerator_of(tf.distribute.get_strategy())
    assert named == "CPU" or tf.config.list_physical_devices("GPU")

"""The check of a machine: its figures by an independent formula, and a page that holds what failed."""

import json

import keras
import numpy as np
import pytest

from benchmarks.accelerator import page, parts
from benchmarks.accelerator.probe import difference
from benchmarks.commands import run_python
from pipeline.base import accelerators
from pipeline.base.errors import FailedError
from pipeline.report import html
from pipeline.training.engine import measures

SEEN = {
    "kind": "CPU",
    "name": "CPU",
    "replicas": 1,
    "devices": ["/device:CPU:0"],
    "policies": ["float32"],
    "versions": {"keras": keras.__version__},
}


def check(seen: dict, tmp_path) -> parts.Check:
    return parts.Check(folder=tmp_path, seen=seen, size=parts.QUICK, ends=float("inf"))


def test_mfu_is_six_operations_a_weight_and_example_over_the_peak():
    numbers = keras.Input((300,))
    model = keras.Model(numbers, keras.layers.Dense(10)(keras.layers.Dense(200)(numbers)))
    found = {
        "flops_per_example": measures.TRAINING * measures.forward_flops(model),
        "own": {"examples_per_s": 4e6},
        "gain": 1.25,
    }
    weights = 300 * 200 + 200 * 10
    h100 = accelerators.of_device("NVIDIA H100 80GB HBM3")
    answer = parts.utilisation(found, h100, devices=8)
    assert answer["flops_per_s"] == pytest.approx(6 * weights * 4e6)
    assert answer["mfu"] == pytest.approx(6 * weights * 4e6 / (8 * 989e12))
    assert answer["fed"] == pytest.approx(0.8)


def test_no_peak_is_no_mfu_and_a_fed_chip_is_not_fed_more_than_whole():
    found = {"flops_per_example": 10, "own": {"examples_per_s": 3.0}, "gain": 0.9}
    assert parts.utilisation(found, None, devices=1) == {"fed": 1.0, "flops_per_s": 30.0, "mfu": None}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("TPU v4", "v4"),
        ("TPU v5 lite", "v5e"),
        ("TPU v5", "v5p"),
        ("TPU v6 lite", "v6e"),
        ("TPU7x", "tpu7x"),
        ("v5litepod-8", "v5e"),
        ("NVIDIA H100 80GB HBM3", "h100"),
    ],
)
def test_devices_by_the_names_of_jax_and_of_drivers(device: str, expected: str):
    assert accelerators.of_device(device).target == expected


def test_a_bit_counts_as_a_difference_and_the_largest_is_named():
    one = {"a": np.array([0.0, 1.0], np.float32), "b": np.array([2.0], np.float32), "n": np.array([3])}
    assert difference(one, one) == {"arrays": 3, "differing": 0, "largest": 0.0, "of": ""}
    other = {**one, "a": np.array([-0.0, 1.0], np.float32), "b": np.array([2.5], np.float32)}
    assert difference(one, other) == {"arrays": 3, "differing": 2, "largest": 0.5, "of": "b"}


def test_targets_follow_from_the_device(tmp_path):
    gpus = {**SEEN, "kind": "GPU", "name": "NVIDIA A100-SXM4-80GB", "replicas": 4}
    assert check(gpus, tmp_path).target == "a100:4"
    assert check(SEEN, tmp_path).target == "h100:2"  # of a rehearsal


def test_a_part_that_fails_leaves_the_others(tmp_path):
    def fails(_: parts.Check) -> dict:
        raise FailedError("a part", received="no memory", expected="enough", action="Take less.")

    same = {"arrays": 3, "differing": 0, "largest": 0.0, "of": "", "killed_behind": 4, "steps": 16}
    found = parts.results(check(SEEN, tmp_path), {"precision": fails, "resume": lambda _: same})
    document = {"rehearsal": True, "quick": True, "devices": 2, "seen": SEEN, "parts": found}
    head, failed, resumed = page.sections(json.loads(json.dumps(document)))
    assert (failed.good, resumed.good) == (False, True)
    written = html.page(head, [failed, resumed])
    for text in ("A rehearsal: no accelerator was found", "received no memory", "The same, bit for bit"):
        assert text in written


def test_a_rehearsal_does_not_judge_how_fed_the_processor_is():
    rate = {"examples_per_s": 100.0, "step_ms": 2.5, "input_wait": 0.0}
    forecast = {"error": "not asked"}
    figures = {"own": rate, "kept": rate, "forecast": forecast, "fed": 0.5, "flops_per_s": 1e9, "mfu": None}
    parts_ = {"fed_table": {"seconds": 1.0, "figures": figures}}
    document = {"rehearsal": True, "quick": False, "devices": 2, "seen": SEEN, "parts": parts_}
    assert [page.sections({**document, "rehearsal": each})[1].good for each in (True, False)] == [None, False]


def test_a_command_that_takes_too_long_is_ended():
    with pytest.raises(FailedError, match="no answer within"):
        run_python("-c", "import signal; signal.pause()", timeout_s=0.2)


def test_the_last_line_of_a_command_that_fails_is_named():
    with pytest.raises(FailedError, match="received error: a reason;"):
        run_python("-c", "import sys; sys.exit('a line\\nerror: a reason')")
    assert run_python("-c", "print(7); raise SystemExit(1)", allowed=(0, 1)) == "7\n"

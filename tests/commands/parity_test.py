"""The binary: a config before there is a run, a run with its export, and what it answers to bad input."""

import json
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from tests.shared.small_run import write_small_dataset

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = "--config=pipeline/configs/tabular.py"
SHORT = ("--config.global_batch=16", "--config.train.steps=4", "--config.optimizer.ema=0.5")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0").directory


@pytest.fixture
def run_binary(warm_python: pathlib.Path) -> Callable[..., subprocess.CompletedProcess]:
    return lambda *command: subprocess.run(
        [warm_python, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False
    )


@pytest.mark.slow
def test_a_run_and_its_export_agree(run_binary, dataset, tmp_path):
    run = tmp_path / "run"
    train = run_binary("pipeline.train", CONFIG, *SHORT, f"--dataset={dataset}", f"--workdir={run}")
    assert train.returncode == 0, train.stderr
    found = run_binary("pipeline.parity", f"--workdir={run}", f"--json={tmp_path / 'all.json'}")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.splitlines()[-1] == (
        "verdict: all agree (bfloat16, sparse, replicas, micro-batches, export)"
    )
    told = json.loads((tmp_path / "all.json").read_text())
    names = [each["name"] for each in told["comparisons"]]
    assert names == ["bfloat16", "sparse", "replicas", "micro-batches", "export"]
    assert all(each["differences"] for each in told["comparisons"])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "received nothing; expected either --workdir=RUN, or --config=FILE"),
        (("--workdir=x", CONFIG), "received --config too"),
        ((CONFIG,), "--dataset: received nothing"),
        (("--workdir=/nowhere",), "a directory without run.json"),
        ((CONFIG, "--dataset=/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_one_line(run_binary, flags, told):
    found = run_binary("pipeline.parity", *flags)
    assert found.returncode == 2
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert told in line

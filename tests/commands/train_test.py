"""The binary: killed and repeated, on several workers, and answering bad input."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import r2_score

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import restore
from pipeline.training.run import run
from pipeline.training.run.request import Request
from tests.shared.data_servers import serving
from tests.shared.flag_defaults import with_defaults
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset
from tests.shared.tiny_dataset import write_dataset

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = "pipeline/configs/tabular.py"
# The batch is left to the rows: 16 for the 200 that are trained on.
SHORT = ("--config.train.log_every_steps=2", "--config.train.steps_per_loop=2")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0")


def start(
    *arguments: object, python: str | pathlib.Path = sys.executable, **environment: str
) -> subprocess.Popen:
    return subprocess.Popen(
        [python, "-m", "pipeline.train", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = process.communicate()
    return process.returncode, out, err


def arguments_for(dataset: Dataset, workdir: pathlib.Path, *overrides: str) -> Sequence[object]:
    return (
        f"--config={CONFIG}",
        f"--dataset={dataset.directory}",
        f"--workdir={workdir}",
        *with_defaults(SHORT, overrides),
    )


def steps_in_history(workdir: pathlib.Path) -> list[int]:
    return [json.loads(line)["step"] for line in (workdir / "history.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_killed_run_is_continued_by_the_same_command(dataset, tmp_path, warm_python):
    arguments = arguments_for(
        dataset, tmp_path / "run", "--config.train.steps=40", "--config.train.checkpoint_every_steps=4"
    )
    process = start(*arguments)
    for line in process.stdout:
        if line.startswith("step 10/40"):
            process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    code, out, err = finish(start(*arguments, f"--json={tmp_path / 'metrics.json'}", python=warm_python))
    assert code == 0, err
    assert "continuing from step" in out
    assert "step 2/40" not in out
    rules = (
        "batch 16, evaluation every epoch, 16 members, the best val_loss kept, an end after 10 evaluations"
    )
    assert f"{rules} without a better one: 200 rows" in out
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["examples"] == 70
    assert f"test: loss {metrics['loss']:.4f}" in out
    assert "python -m pipeline.export --workdir=" in out
    # 13, 25 and 38 end epochs; the even steps are log points.
    assert steps_in_history(tmp_path / "run") == sorted({*range(2, 41, 2), 13, 25, 38})
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 40


@pytest.mark.slow
def test_two_workers_train_one_model(dataset, tmp_path, warm_python):
    with socket.create_server(("localhost", 0)) as first, socket.create_server(("localhost", 0)) as second:
        workers = [f"localhost:{server.getsockname()[1]}" for server in (first, second)]
    arguments = arguments_for(
        dataset, tmp_path, "--config.train.steps=4", "--strategy=multi_worker", "--precision=float32"
    )
    processes = [
        start(
            *arguments,
            python=warm_python,
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(2)
    ]
    (code, chief, err), (other_code, other, other_err) = [finish(process) for process in processes]
    assert (code, other_code) == (0, 0), err + other_err
    assert "strategy   multi_worker, replicas: 2" in chief
    assert "step 4/4" in chief
    assert "step 4/4" not in other
    assert chief.splitlines()[-3] == other.splitlines()[-3]  # the same metrics
    assert steps_in_history(tmp_path) == [2, 4]
    assert not list(tmp_path.glob("*.worker-*"))
    # The chief alone fits baselines, and its rows are those of both workers.
    compared = json.loads((tmp_path / "baselines.json").read_text())
    final = json.loads((tmp_path / "evaluation.json").read_text())
    assert compared["network"]["auc"]["value"] == pytest.approx(final["auc"], abs=1e-6)
    assert "gradient boosting" in chief
    assert "gradient boosting" not in other


GOOD = (f"--config={CONFIG}", "--dataset=nowhere", "--workdir=nowhere")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*GOOD, "--config.init.from=run"],  # no Python: ml_collections cannot read it
            r"--config.init.from: received a key that the config does not have",
        ),
        (
            [*GOOD, "--config.train.epoch=3"],
            r"--config.train.epoch: received a key that the config does not have.*--config.train.epochs\?",
        ),
        (
            [*GOOD, "--config.global_batch=many"],
            r"--config.global_batch: received many; expected a whole number",
        ),
        ([*GOOD, "--strategy=fast"], r"--strategy: received fast; expected one of auto, one_device"),
        ([*GOOD, "--speed=1"], r"--speed: received a flag that this command does not have"),
        ([*GOOD, "data"], r"the argument 'data'"),
        (["--config=nowhere.py", *GOOD[1:]], r"--config=nowhere.py: received no such file"),
        (GOOD[1:], r"--config: received nothing"),
        (GOOD, r"dataset .*nowhere: received no such directory"),
    ],
)
def test_bad_input_gets_one_line(arguments, message):
    code, out, err = finish(start(*arguments))
    assert code == 2
    assert "Traceback" not in err
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line)
    assert out == ""


def test_batch_that_does_not_divide_is_refused(dataset, tmp_path, warm_python):
    arguments = arguments_for(
        dataset, tmp_path / "run", "--config.global_batch=15", "--strategy=mirrored", "--logical_devices=2"
    )
    code, _, err = finish(start(*arguments, python=warm_python))
    assert code == 2
    assert "--config.global_batch: received 15; expected a positive multiple of the 2 replicas" in err
    assert not (tmp_path / "run").exists()


def test_help_teaches_with_examples():
    _, out, _ = finish(start("--help"))
    assert "python -m pipeline.train --config=pipeline/configs/digits_resnet.py" in out
    assert "--strategy=mirrored --logical_devices=2" in out
    assert "--precision" in out


# A regression learns the same whatever the unit of its label is, and is told and served in that unit.

SCHEMA = Schema(
    name="units", features=(Numeric(name="x"), Numeric(name="y"), Label(name="value", task="regression"))
)
TEST = np.random.default_rng(2).normal(size=(70, 2)).astype("float32").astype("float64")


def value(points: np.ndarray) -> np.ndarray:
    return points[:, 0] - 0.5 * points[:, 1]


def rows(points: np.ndarray, unit: float, offset: float) -> list[dict]:
    labels = (offset + unit * value(points)).tolist()
    return [{"x": x, "y": y, "value": label} for (x, y), label in zip(points.tolist(), labels, strict=True)]


def trained(folder, unit: float, offset: float) -> tuple[dict, np.ndarray]:
    """Final metrics, and predictions of the rows of `test`, in standard units."""
    many = np.random.default_rng(0).normal(size=(400, 2)).astype("float32").astype("float64")
    splits = {"train": rows(many, unit, offset), "test": rows(TEST, unit, offset)}
    dataset = write_dataset(folder / "1.0.0", SCHEMA, splits)
    config = small_config()
    config.train.update({"epochs": 6.0, "steps_per_loop": 32})
    config.model.dropout = 0.0
    request = Request(
        dataset=dataset,
        workdir=folder / "run",
        experiment=parsed(config),
        strategy="one_device",
        precision="float32",
    )
    metrics = run.train(request)
    restored = restore.restore_model(folder / "run")
    features = {name: tf.constant(TEST[:, i], tf.float32) for i, name in enumerate(("x", "y"))}
    predicted = restored.model(restored.preprocess(features)).numpy()[:, 0].astype("float64")
    assert metrics["r2"] == pytest.approx(r2_score(offset + unit * value(TEST), predicted), abs=1e-3)
    assert metrics["loss"] == pytest.approx(np.mean((offset + unit * value(TEST) - predicted) ** 2), rel=1e-2)
    return metrics, (predicted - offset) / unit


@pytest.fixture(scope="module")
def of_millionths(tmp_path_factory) -> np.ndarray:
    metrics, predicted = trained(tmp_path_factory.mktemp("millionths"), 1e-6, 0.0)
    assert metrics["r2"] > 0.9
    return predicted


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "offset"), [(1e9, 0.0), (5.0, 2000.0)])
def test_the_unit_decides_nothing(tmp_path, of_millionths, unit, offset):
    _, predicted = trained(tmp_path, unit, offset)
    np.testing.assert_allclose(predicted, of_millionths, atol=0.02)


# A run whose batches tf.data services prepare ends like one that prepares them itself.


@pytest.mark.slow
def test_ends_the_same(request_for, tmp_path, config, warm_python):
    config.train.steps = 10
    alone = run.train(request_for(tmp_path / "alone", strategy="mirrored"))
    with serving(2, warm_python) as addresses:
        served = run.train(
            request_for(tmp_path / "served", strategy="mirrored", data_service=tuple(addresses))
        )
    assert served == alone

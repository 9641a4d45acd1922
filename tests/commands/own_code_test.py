"""A folder of one's own, outside the checkout: a model, a loss, a config; from training to a second cycle."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from tests.shared import small_spans
from tests.shared.small_run import write_small_dataset

MODEL = """
import keras

import my_blocks


def build(outputs, width=8):
    x = keras.Input((1,), name="{feature}")
    return keras.Model(x, keras.layers.Dense(outputs, dtype="float32")(my_blocks.hidden(x, width)))
"""
BLOCKS = """
import keras


def hidden(x, width):
    return keras.layers.Dense(width, activation="{activation}")(x)
"""
CODE = """
import keras
import tensorflow as tf


def softly(labels, logits, power=1.0):
    labels = tf.cast(labels, tf.float32)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits[:, 0]) ** power


def hits(labels, predictions, weights):
    return float((weights * (labels == predictions.argmax(-1))).sum() / weights.sum())


def adam(learning_rate, beta_1=0.9):
    return keras.optimizers.Adam(learning_rate, beta_1=beta_1)
"""
CONFIG = """
from pipeline.configs import base


def get_config():
    config = base.get_config()
    config.model.name = "my_model:build"
    config.loss.name = "my_code:softly"
    config.optimizer.name = "my_code:adam"
    config.optimizer.learning_rate = 0.05
    config.optimizer.warmup_steps = 2
    config.evaluation.metrics = ("my_code:hits",)
    config.train.keep_best = "max:val_hits"
    config.train.checkpoint_every_steps = 4
    config.train.steps_per_loop = 2
    config.train.log_every_steps = 2
    config.global_batch = 40
    return config
"""
RETRAINING = """
from tests.shared import small_retraining


def get_config():
    config = small_retraining.get_config()
    config.train.config = {path!r}
    config.train.flags = ("--strategy=one_device", "--config.train.steps=40", "--config.optimizer.beta_1=0.8")
    config.gate.slices = ()
    config.gate.rule = "non_inferiority"
    config.gate.margin = 0.5
    return config
"""
ROOT = pathlib.Path(__file__).parents[2]


def write(folder: pathlib.Path, *, feature: str, activation: str = "relu") -> pathlib.Path:
    folder.mkdir(exist_ok=True)
    (folder / "my_model.py").write_text(MODEL.format(feature=feature))
    (folder / "my_blocks.py").write_text(BLOCKS.format(activation=activation))
    (folder / "my_code.py").write_text(CODE)
    (folder / "config.py").write_text(CONFIG)
    return folder


@pytest.fixture
def command(warm_python, tmp_path):
    """Runs a command in an empty folder, as somebody who installed Penstock does."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def run(name: str, *arguments: object, code: int = 0) -> str:
        command = [warm_python, "-m", f"pipeline.{name}", *map(str, arguments)]
        ended = subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, (name, ended.stdout[-2000:], ended.stderr)
        return ended.stdout if not code else ended.stderr

    run.start = lambda name, *arguments: subprocess.Popen(
        [warm_python, "-m", f"pipeline.{name}", *map(str, arguments)],
        cwd=elsewhere,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    return run


@pytest.mark.slow
def test_own_code_trains_goes_on_is_exported_and_replayed(command, tmp_path):
    mine, workdir = write(tmp_path / "mine", feature="x"), tmp_path / "run"
    dataset = write_small_dataset(tmp_path / "tiny" / "1.0.0").directory
    given = (f"--config={mine / 'config.py'}", f"--dataset={dataset}", f"--workdir={workdir}")
    train = (*given, "--workers=2", "--config.loss.power=1.5", "--config.optimizer.beta_1=0.8")
    killed = command.start("train", *train, "--config.train.steps=4000")
    for line in killed.stdout:
        if line.startswith("step") and int(line.split()[1].partition("/")[0].replace(",", "")) >= 8:
            break
    killed.send_signal(signal.SIGTERM)
    killed.communicate()
    record = json.loads((workdir / "run.json").read_text())
    assert set(record["code"]) == {"my_model:build", "my_code:softly", "my_code:adam", "my_code:hits"}
    assert set(record["code"]["my_model:build"]["files"]) == {"my_model.py", "my_blocks.py"}
    assert (record["config"]["loss"]["power"], record["config"]["optimizer"]["beta_1"]) == (1.5, 0.8)
    step = json.loads((workdir / "history.jsonl").read_text().splitlines()[-1])["step"]
    out = command("train", *train, f"--config.train.steps={step + 8}")
    assert "hits" in out and f"step {step + 8:,}/{step + 8:,}" in out
    command("export", f"--workdir={workdir}", f"--output={tmp_path / 'export'}")
    scored = command(
        "evaluate", f"--model={tmp_path / 'export'}", f"--dataset={dataset}", "--metrics=f1,pr_auc"
    )
    assert "f1" in scored and "pr_auc" in scored
    command("replay", f"--workdir={workdir}", f"--step={step}")
    command("conform", f"--config={mine / 'config.py'}", f"--dataset={dataset}")
    command(
        "train",
        *given[:2],
        f"--workdir={tmp_path / 'sweep'}",
        "--config.train.steps=4",
        "--sweep=config.loss.power=1.0,2.0;config.model.width=4",
    )
    write(mine, feature="x", activation="tanh")
    for again in (
        ("train", *train, f"--config.train.steps={step + 16}"),
        ("export", f"--workdir={workdir}", f"--output={tmp_path / 'later'}"),
    ):
        assert "received my_blocks.py has changed" in command(*again, code=2)


@pytest.mark.slow
def test_a_change_of_own_code_is_a_new_experiment_and_leaves_the_champion(command, tmp_path):
    mine, root = write(tmp_path / "mine", feature="distance"), tmp_path / "root"
    (mine / "retraining.py").write_text(RETRAINING.format(path=str(mine / "config.py")))
    small_spans.write_schema(root)
    for number in range(3):
        small_spans.write_span(root, number)
    given = (f"--config={mine / 'retraining.py'}", f"--root={root}")
    assert "PROMOTE, version 1 is served" in command("retrain", "reconcile", *given, "--now=2026-11-04T03:00")
    assert "nothing is due" in command("retrain", "reconcile", *given, "--now=2026-11-04T04:00")
    write(mine, feature="distance", activation="tanh")
    small_spans.write_span(root, 3)
    out = command("retrain", "reconcile", *given, "--now=2026-11-05T03:00")
    assert "version 2 is served" in out
    code = [json.loads(path.read_text())["code"] for path in sorted(root.glob("cycles/*/run/run.json"))]
    assert len(code) == 2 and code[0] != code[1]

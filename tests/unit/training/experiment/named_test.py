"""Code that a config names: found, recorded, and refused once it is another."""

import json
import pathlib

import keras
import pytest

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.training.experiment import named, restore
from pipeline.training.run import run
from tests.shared.parsed import parsed

OWN_CODE = """
import keras
import tensorflow as tf


def loss(labels, logits, power=2.0):
    return tf.abs(tf.cast(labels, tf.float32) - tf.sigmoid(logits[:, 0])) ** power


def found(labels, predictions, weights):
    return (weights * (labels == 1) * (predictions[:, 1] > 0.5)).sum()


def rate(learning_rate, total_steps):
    return keras.optimizers.schedules.PolynomialDecay(learning_rate, total_steps)
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch) -> pathlib.Path:
    """The file of a module of one's own, `own_code_NAME`."""
    file = tmp_path / f"own_code_{tmp_path.name}.py"
    file.write_text(OWN_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    return file


def test_a_name_is_that_of_an_attribute_or_of_one_in_the_library():
    assert named.resolve("keras.losses:Huber", key="--loss") is keras.losses.Huber
    assert named.resolve("Huber", key="--loss", library="keras.losses") is keras.losses.Huber
    assert named.call("Huber(delta=2.0, name='h')", key="") == ("Huber", {"delta": 2.0, "name": "h"})


def test_a_library_is_recorded_by_its_version_and_own_code_by_its_bytes(own_code):
    assert named.record("keras.losses:Huber", key="") == {
        "name": "keras.losses:Huber",
        "package": "keras",
        "version": keras.__version__,
    }
    name = f"{own_code.stem}:loss"
    expected = {"name": name, "file": str(own_code), "sha256": files.sha256(own_code)}
    assert named.record(name, key="") == expected


@pytest.mark.parametrize("text", ["f(1)", "f(a=b)", "f(", "f)(", "f(**{})"])
def test_what_is_no_call_with_plain_values_is_refused(text):
    with pytest.raises(
        InputError, match=r"expected a name, or a name with values of its arguments|no such name"
    ):
        name, _ = named.call(text, key="--metrics")
        named.resolve(name, key="--metrics", library="keras.metrics")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere_at_all\n", r"fails with ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("def f(:\n", r"fails with SyntaxError: .*Correct .*own_code_.*\.py, line 1"),
        ("\n1 / 0\n", r"fails with ZeroDivisionError: division by zero; .*own_code_.*\.py, line 2"),
        ("loss = 3\n", r"no function or class loss in own_code_"),
    ],
)
def test_code_that_cannot_be_imported_names_its_line(own_code, code, message):
    own_code.write_text(code)
    with pytest.raises(InputError, match=message):
        named.resolve(f"{own_code.stem}:loss", key="--config.loss.name")


@pytest.mark.slow
def test_a_run_of_own_code_is_recorded_and_goes_on_with_the_same_alone(
    own_code, request_for, tmp_path, config
):
    workdir, module = tmp_path / "run", own_code.stem
    config.loss = {"name": f"{module}:loss", "power": 1.5}
    config.optimizer.name, config.optimizer.schedule = "Lion(beta_1=0.8)", f"{module}:rate"
    config.train.keep_best, config.train.epochs = "max:val_found", 2.0
    config.evaluation.metrics = ("f1", "ece", "keras.metrics:BinaryAccuracy", f"{module}:found")
    run.train(request_for(workdir, strategy="mirrored"))
    record = json.loads((workdir / "run.json").read_text())
    assert {each.get("sha256") for key, each in record["code"].items() if module in key} == {
        files.sha256(own_code)
    }
    evaluation = json.loads((workdir / "evaluation.json").read_text())
    (_, (missed, hit)) = evaluation["confusion_matrix"]
    assert evaluation["found"] == hit
    assert evaluation["binary_accuracy"] == pytest.approx(evaluation["accuracy"], abs=1e-6)
    assert evaluation["f1"] == pytest.approx(
        2 * hit / (2 * hit + missed + evaluation["confusion_matrix"][0][1])
    )
    assert "by val_found" in restore.restore_model(workdir, checkpoint="").choice
    named.require_recorded(parsed(config), record["code"])
    own_code.write_text(OWN_CODE.replace("** power", "* power"))
    config.train.epochs = 3.0
    with pytest.raises(InputError, match=r"config.loss.name=.*: received sha256 .*, as when the run began"):
        run.train(request_for(workdir, strategy="mirrored"))

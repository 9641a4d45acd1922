"""The gate on a real run, and what it says of made-up results."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.exporting import export
from pipeline.report.comparison import Agreement
from pipeline.retraining.parity import compare_precisions, float32_twin, parity, reasons
from pipeline.retraining.parity_result import FeatureSkew, Flips, ParityLimits, Skew
from pipeline.training.experiment.restore import RestoredRun, restore_model
from pipeline.training.run import run as run_lib
from pipeline.training.run.request import Request
from tests.shared.faulty_exports import resaved
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

LIMITS = ParityLimits()
AGREES = Agreement(rows=10, differing=0, worst=0.0)
SAME = Skew(rows=10, from_files=0, differing=0, worst=0.0, features=())


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0")


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> RestoredRun:
    config, workdir = small_config(), tmp_path_factory.mktemp("run") / "run"
    config.train.steps = 4
    run_lib.train(
        Request(
            dataset=dataset,
            workdir=workdir,
            strategy="one_device",
            precision="mixed_bfloat16",
            experiment=parsed(config),
        )
    )
    return restore_model(workdir)


@pytest.fixture(scope="module")
def holdout(dataset: Dataset) -> Selection:
    return select(dataset, "test")


@pytest.fixture
def sound(run: RestoredRun, tmp_path: pathlib.Path, warm: None) -> pathlib.Path:
    export.export_model(export.trained(run), tmp_path / "sound")
    return tmp_path / "sound"


def test_a_run_and_its_export_agree(run, sound, holdout):
    found = parity(run, sound, holdout, limits=ParityLimits(flipped=0.1))
    assert found.passed, found.reasons
    assert found.exported == Agreement(rows=70, differing=0, worst=0.0)
    assert found.skew.features == []
    assert found.flips.rows == 70
    assert found.flips.policy == "mixed_bfloat16"
    assert 0 < found.flips.moved < 0.05
    assert json.loads(json.dumps(found.to_json()))["exported"]["rows"] == 70


@pytest.mark.slow
def test_an_export_that_rounds_its_predictions_is_stopped(run, sound, holdout, tmp_path):
    def rounded(outputs):
        return {name: tf.cast(tf.cast(values, tf.bfloat16), values.dtype) for name, values in outputs.items()}

    faulty = resaved(sound, tmp_path / "1", change=rounded)
    found = parity(run, faulty, holdout)
    assert found.reasons[0].startswith("the export predicts otherwise than the graph in memory: ")
    assert found.exported.differing > 35
    assert 0 < found.exported.worst < 2.0**-8


def test_the_twin_has_the_weights_and_computes_in_float32(run):
    twin = float32_twin(run)
    assert {layer.compute_dtype for layer in twin.layers} == {"float32"}
    assert "bfloat16" in {layer.compute_dtype for layer in run.model.layers}
    for mine, other in zip(twin.get_weights(), run.model.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_an_export_that_is_not_whole_is_refused(run, sound, holdout):
    (sound / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError, match=r"saved_model\.pb.*as exported"):
        parity(run, sound, holdout)


def test_decisions_that_flip_are_counted():
    exact = np.array([[0.4, 0.6], [0.51, 0.49], [0.9, 0.1], [0.2, 0.8]])
    rounded = np.array([[0.4, 0.6], [0.49, 0.51], [0.8, 0.2], [0.2, 0.8]])
    found = compare_precisions(rounded, exact, policy="mixed_bfloat16")
    assert (found.flipped, found.rate) == (1, 0.25)
    assert found.moved == pytest.approx(np.sqrt((2 * 0.02**2 + 2 * 0.1**2) / 8))


def test_a_regression_moves_in_the_unit_of_its_spread():
    exact = np.array([1000.0, 1002.0, 1004.0])
    found = compare_precisions(exact + np.array([0.0, 0.3, 0.0]), exact, policy="mixed_bfloat16")
    assert (found.flipped, found.moved) == (0, pytest.approx(0.3 / np.sqrt(3) / np.std(exact)))
    assert compare_precisions(exact * np.nan, exact, policy="mixed_bfloat16").moved == np.inf


def test_several_answers_flip_one_by_one_and_move_each_in_its_unit():
    exact = np.array([[0.4, 0.6], [0.49, 0.9]])
    found = compare_precisions(
        exact + np.array([[0.0, 0.0], [0.02, 0.0]]), exact, policy="", task="multilabel"
    )
    assert (found.flipped, found.moved) == (1, pytest.approx(0.01))
    exact = np.array([[1.0, 1000.0], [3.0, 3000.0]])
    found = compare_precisions(exact + np.array([0.1, 100.0]), exact, policy="", task="multitarget")
    assert (found.flipped, found.moved) == (0, pytest.approx(0.1))


@pytest.mark.parametrize(
    ("task", "shape"), [("retrieval", (2, 3)), ("ranking", (6,)), ("next_token", (1, 3, 2))]
)
def test_scores_and_log_probabilities_are_values_in_one_unit_and_no_classes(task, shape):
    exact = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape(shape)
    found = compare_precisions(-exact, exact, policy="", task=task)
    assert (found.flipped, found.moved) == (0, pytest.approx(np.sqrt(np.mean(4 * exact**2)) / np.std(exact)))


def test_each_failed_comparison_is_a_sentence():
    flipping = Flips(policy="mixed_bfloat16", rows=1000, flipped=20, rate=0.02, moved=0.3)
    skewed = dataclasses.replace(
        SAME,
        differing=4,
        worst=0.25,
        features=(FeatureSkew(feature="age", rows=7, example="60 is 1.1 in training, 60 in serving"),),
    )
    assert list(reasons(dataclasses.replace(AGREES, differing=3, worst=0.5), flipping, skewed, LIMITS)) == [
        "the export predicts otherwise than the graph in memory: 3 of 10 rows, by up to 0.5; every bit must "
        "be the same",
        "mixed_bfloat16 decides otherwise than float32 on 20 of 1,000 rows, 2.00%; at most 1.00% is allowed",
        "mixed_bfloat16 is 0.3 from float32 (root of the mean square); at most 0.05 is allowed",
        "feature 'age' reaches the model as another number in serving than in training, in 7 of 10 rows: 60 "
        "is 1.1 in training, 60 in serving",
        "serving's raw columns give other predictions than training's input: 4 of 10 rows, by up to 0.25",
    ]
    assert list(reasons(AGREES, None, SAME, LIMITS)) == []


@pytest.mark.parametrize(("name", "value"), [("rows", 0), ("flipped", -0.1), ("moved", float("nan"))])
def test_a_limit_that_cannot_be_is_named(name, value):
    with pytest.raises(InputError, match=f"limit '{name}' of parity: received {value}"):
        ParityLimits(**{name: value})

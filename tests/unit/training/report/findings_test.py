"""What the report finds: the verdict beside the baselines, and overfitting."""

import math

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import confusion_matrix, log_loss, mean_squared_error, r2_score

from pipeline.data.schema.feature_types import Label
from pipeline.report import terminal
from pipeline.report.section import Section
from pipeline.training.report.findings import (
    few_validated,
    improving,
    late_start,
    not_finite,
    overfitting,
    verdict,
)
from pipeline.training.report.results import baseline, confusion_table, majority, mean_rmse, prior_loss
from pipeline.training.tasks.registry import EvaluationMetrics

# Answers without features, held against scikit-learn's.

DRAW = np.random.default_rng(0)


def counts_of(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    return counts


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.2, 0.3, 0.5), (0.7, 0.3, 0.0)])
def test_prior_loss_and_majority_are_those_of_a_dummy(shares: tuple[float, ...]):
    labels = DRAW.choice(len(shares), 2_000, p=shares)
    counts = counts_of(labels, DRAW.integers(0, len(shares), 2_000), len(shares))
    features = np.zeros((2_000, 1))
    prior = DummyClassifier(strategy="prior").fit(features, labels)
    expected = log_loss(labels, prior.predict_proba(features), labels=prior.classes_)
    assert prior_loss(counts) == pytest.approx(expected, rel=1e-12)
    assert majority(counts)[1] == pytest.approx(prior.score(features, labels))


def test_the_spread_is_what_a_dummy_regression_has():
    labels = DRAW.normal(1e3, 7, 500)
    predicted = labels + DRAW.normal(0, 3, 500)
    evaluation = {
        "rmse": math.sqrt(mean_squared_error(labels, predicted)),
        "r2": r2_score(labels, predicted),
    }
    mean = DummyRegressor().fit(np.zeros((500, 1)), labels).predict(np.zeros((500, 1)))
    assert mean_rmse(evaluation) == pytest.approx(math.sqrt(mean_squared_error(labels, mean)), rel=1e-9)


def test_nothing_is_said_of_what_is_not_known():
    none = np.empty((0, 0), np.int64)
    assert baseline({}, none, []) is None
    assert baseline({"rmse": 0.0, "r2": 0.0}, none, []) is None
    assert "The loss" not in str(baseline({}, np.eye(2, dtype=np.int64), ["no", "yes"]))


@pytest.mark.parametrize(("loss", "said"), [(0.6, 0), (0.7, 1)])
def test_a_loss_above_the_prior_is_told(loss: float, said: int):
    evaluation = {"classes": ["no", "yes"], "confusion_matrix": [[9, 1], [1, 9]], "loss": loss}
    assert len([each for each in verdict(evaluation) if "is not below 0.693" in each.text]) == said


# When the report says that validation got worse while training got better.


def history(trained: list[float], validated: list[float | None]) -> tuple[dict, ...]:
    return tuple(
        {"step": 100 * number, "loss": loss}
        | ({} if held_out is None else {"validation": {"loss": held_out}})
        for number, (loss, held_out) in enumerate(zip(trained, validated, strict=True), 1)
    )


def test_names_the_best_step_and_all_four_losses():
    lines = history([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.7, 0.9])
    (finding,) = overfitting(lines)
    assert finding.text == (
        "Validation got worse from step 200 on (loss 0.6, then 0.9) while training got better "
        "(0.7, then 0.3)."
    )
    assert "keep_best=val_loss" in finding.advice
    (stopped,) = overfitting(lines, is_best_kept=True, stops_by_itself=True)
    assert "patience" in finding.advice
    assert "patience" not in stopped.advice


@pytest.mark.parametrize(
    ("trained", "validated"),
    [
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.5, 0.4]),  # better to the end
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.5, 0.9]),  # one evaluation alone
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.600, 0.603, 0.605]),  # within 1%
        ([0.9, 0.7, 0.8, 0.9], [0.8, 0.6, 0.7, 0.9]),  # training got worse, too
        ([0.9, 0.8, 0.79, 0.78], [0.8, 0.6, 0.7, 0.8]),  # the training loss is not well below validation's
        ([0.9, 1.2, 1.1, 1.0], [0.8, 0.6, 0.7, 0.9]),  # it rose
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, float("nan"), 0.9]),
        ([0.9, 0.7, 0.5, 0.3], [None, None, None, None]),
        ([], []),
    ],
)
def test_says_nothing_where_it_did_not_happen(trained: list[float], validated: list):
    assert list(overfitting(history(trained, validated))) == []


def test_a_loss_that_rises_slowly_after_the_best_step_is_named():
    lines = history([0.9, 0.7, 0.5, 0.4, 0.3, 0.2], [0.8, 0.600, 0.602, 0.61, 0.7, 0.8])
    (finding,) = overfitting(lines)
    assert finding.text.startswith("Validation got worse from step 200 on (loss 0.6, then 0.8)")
    assert not list(overfitting(history([0.9, 0.7, 0.5, 0.4, 0.3, 0.2], [0.8, 0.6, 0.9, 0.9, 0.603, 0.7])))


def test_a_training_loss_that_hardly_fell_is_no_learning_by_heart():
    (finding,) = overfitting(history([1.10, 1.09, 1.08, 1.07], [1.11, 1.10, 1.12, 1.14]))
    assert finding.text == (
        "Validation got worse from step 200 on (loss 1.1, then 1.14) while the training loss hardly fell "
        "(1.1, then 1.07)."
    )
    assert "raise --config.optimizer.learning_rate" in finding.advice
    assert "by heart" not in finding.advice


def test_the_training_loss_is_the_last_before_an_evaluation():
    lines = history([0.9, 0.7, 0.6, 0.5, 0.4, 0.3], [None, 0.6, None, 0.7, None, 0.9])
    (finding,) = overfitting(lines)
    assert "(0.7, then 0.3)" in finding.text


@pytest.mark.parametrize(
    ("is_best_kept", "told"),
    [(False, "--config.train.keep_best=val_loss exports"), (True, "The best step is what is exported;")],
)
def test_the_advice_knows_whether_the_best_step_is_kept(is_best_kept: bool, told: str):
    lines = history([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.7, 0.9])
    (finding,) = overfitting(lines, is_best_kept=is_best_kept)
    assert told in finding.advice


# When a loss is not a number: NaN in memory, null in a file.


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_a_loss_that_is_not_finite_is_told(loss: float | None):
    (of_training,) = not_finite(history([0.9, loss], [0.8, 0.9]))
    (of_validation,) = not_finite(history([0.9, 0.8], [0.8, math.nan if loss is None else loss]))
    (of_end,) = verdict({"loss": loss, "split": "test"})
    assert of_training.text == "The training loss is not a finite number from step 200 on."
    assert of_validation.text == "The validation loss is not a finite number from step 200 on."
    assert of_end.text == "The test loss is not a finite number."
    assert "Lower --config.optimizer.learning_rate" in of_end.advice


# When a run stopped too early, or hardly began.


def test_a_run_that_stopped_while_it_got_better_is_told():
    (finding,) = improving(history([0.9] * 5, [0.9, 0.8, 0.7, 0.6, 0.5]))
    assert finding.text == (
        "Training stopped while validation still got better (loss 0.6, then 0.5 in the last quarter)."
    )
    assert "--config.train.epochs" in finding.advice


@pytest.mark.parametrize(
    "validated",
    [
        [0.9, 0.6, 0.52, 0.51, 0.500],  # a fortieth of the gain
        [0.504, 0.503, 0.502, 0.501, 0.5],  # within 1%
        [0.9, 0.8, 0.7, 0.6, 0.61],  # the last one is not the best
        [0.9, 0.7, 0.5],  # too few
        [0.9, 0.8, float("nan"), 0.6, 0.5],
        [None] * 5,
    ],
)
def test_a_run_that_went_its_length_is_not(validated: list):
    assert list(improving(history([0.9] * len(validated), validated))) == []


@pytest.mark.parametrize(("warmup_steps", "said"), [(100, True), (10, False), (0, False)])
def test_a_warm_up_that_is_most_of_the_run_is_told(warmup_steps: int, said: bool):
    run = {"config": {"optimizer": {"warmup_steps": warmup_steps}}, "total_steps": 120}
    told = "The learning rate rises in 100 of the 120 steps (config.optimizer.warmup_steps=100)."
    assert [each.text for each in late_start(run)] == ([told] if said else [])
    assert list(late_start({})) == []


# What an evaluation tells against a model, or against its split.


def of_classes(*rows: list[int]) -> dict:
    return {"classes": ["no", "yes"], "confusion_matrix": list(rows)}


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        ({}, []),
        ({"r2": 0.01}, []),
        ({"r2": -1980.13}, ["R² is -1,980: always answering the mean label would be nearer."]),
        (of_classes([8, 1], [1, 2]), []),
        (of_classes([8, 2], [2, 2]), ["Always answering “no” is right as often, or more often."]),
        (of_classes([8, 2], [2, 1]), ["Always answering “no” is right as often, or more often."]),
        (of_classes([177, 0], [0, 0]), ["The split has no example of: yes."]),
    ],
)
def test_what_is_said_of_an_evaluation(evaluation: dict, said: list[str]):
    assert [finding.text for finding in verdict(evaluation)] == said


def test_a_best_step_chosen_on_few_rows_is_said():
    few, many = ([{"step": 1, "validation": {"loss": 0.5, "examples": rows}}] for rows in (5, 30))
    (finding,) = few_validated(few, is_best_kept=True)
    assert "on 5 rows of validation" in finding.text
    assert not [*few_validated(few, is_best_kept=False), *few_validated(many, is_best_kept=True)]
    assert not [*few_validated([{"step": 1}], is_best_kept=True)]


# Confusions as a terminal has them, held against scikit-learn's.


def evaluated(labels: np.ndarray, predicted: np.ndarray, names: tuple[str, ...]) -> dict:
    """The evaluation of a model that is sure of `predicted`."""
    label = Label(name="kind", task="binary" if len(names) == 2 else "multiclass", classes=names)
    metrics = EvaluationMetrics(label, {})
    metrics.update(labels, np.eye(len(names))[predicted])
    return metrics.result()


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_a_terminal_shows_the_confusion_matrix(classes: int):
    labels, predicted = DRAW.integers(0, classes, (2, 3_000))
    names = tuple(f"kind {number}" for number in range(classes))
    table = confusion_table(evaluated(labels, predicted, names))
    expected = confusion_matrix(labels, predicted)
    assert [*table.header] == ["", *names]
    assert [row[0] for row in table.rows] == [*names]
    assert [[int(cell) for cell in row[1:]] for row in table.rows] == expected.tolist()
    last = terminal.render([Section(parts=[table])]).splitlines()[-1].split()
    assert last == ["kind", str(classes - 1), *map(str, expected[-1])]


def test_of_many_classes_a_terminal_shows_the_pairs_confused_most_often():
    names = tuple(f"kind {number}" for number in range(13))
    labels = DRAW.integers(0, 13, 3_000)
    predicted = np.where(DRAW.random(3_000) < 0.7, labels, DRAW.integers(0, 13, 3_000) ** 2 // 13)
    mistakes = confusion_matrix(labels, predicted)
    np.fill_diagonal(mistakes, 0)
    rows = confusion_table(evaluated(labels, predicted, names)).rows
    assert [int(times) for *_, times in rows] == sorted(mistakes.ravel().tolist())[:-7:-1]
    assert all(mistakes[names.index(row), names.index(column)] == int(n) for row, column, n in rows)


def test_no_confusions_of_numbers_nor_of_more_classes_than_are_counted():
    names = tuple(f"kind {number}" for number in range(201))
    labels = np.arange(201)
    assert confusion_table(evaluated(labels, labels, names)) is None
    assert confusion_table({"task": "regression", "rmse": 1.0, "r2": 0.5}) is None

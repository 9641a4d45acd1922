"""Rows of a sweep become a table; means and deviations are those of the statistics module's textbook."""

import csv
import io
import math

import numpy as np
import pytest

from pipeline.data.schema.feature_types import Label
from pipeline.training.launch.sweep import Row, csv_text, ranked_trials, table_lines

KINDS = Label(name="kind", classes=("a", "b"))
PRICE = Label(name="price", task="regression")


def row(rate: str, seed: str, auc: float) -> Row:
    numbers = {"val_loss": 1 - auc, "val_auc": auc, "test_auc": auc / 2}
    return Row(values={"rate": rate, "seed": seed}, numbers=numbers, seconds=1.5)


def test_seeds_are_averaged_and_the_best_validation_comes_first():
    aucs = {"1": (0.7, 0.8, 0.75), "2": (0.9, 0.85, 0.95)}
    rows = [row(rate, str(seed), auc) for rate, each in aucs.items() for seed, auc in enumerate(each)]
    best, worst = ranked_trials(rows, KINDS)
    assert (best.values, best.runs, worst.values) == ({"rate": "2"}, 3, {"rate": "1"})
    np.testing.assert_allclose(best.means["val_auc"], np.mean(aucs["2"]))
    np.testing.assert_allclose(worst.deviations["val_auc"], np.std(aucs["1"], ddof=1))
    assert table_lines([best, worst], KINDS)[:2] == [
        "rate  runs  val_loss         val_auc          test_auc",
        "2     3     0.1000 ± 0.0500  0.9000 ± 0.0500  0.4500 ± 0.0250",
    ]


def test_of_an_error_less_is_better():
    rows = [
        Row(values={"a": name}, numbers={"val_rmse": error, "val_loss": error**2, "val_r2": 0.0})
        for name, error in (("large", 12_345.678), ("small", 0.5))
    ]
    best, worst = ranked_trials(rows, PRICE)
    assert (best.values["a"], worst.values["a"]) == ("small", "large")
    assert "12345.7" in table_lines([best, worst], PRICE)[2]


def test_mean_and_deviation_have_digits_whatever_their_unit():
    for scale, told in ((1e5, "150000 ± 70710.7"), (1e-6, "1.5e-06 ± 7.07107e-07"), (1, "1.5000 ± 0.7071")):
        rows = [Row(values={"seed": s}, numbers={"val_mae": int(s) * scale}) for s in "12"]
        assert told in table_lines(ranked_trials(rows, PRICE), PRICE)[1]


def test_a_run_that_failed_comes_last_with_its_reason():
    rows = [Row(values={"a": "1"}, failed="no disk"), Row(values={"a": "2"}, numbers={"val_auc": 0.5})]
    assert table_lines(ranked_trials(rows, KINDS), KINDS) == ["a  val_auc", "2  0.5000", "1  no disk"]


def test_a_sweep_of_failures_only_is_a_table_too():
    rows = [Row(values={"a": "1"}, failed="no disk")]
    assert table_lines(ranked_trials(rows, KINDS), KINDS) == ["a", "1  no disk"]


def test_without_validation_the_order_is_that_of_the_sweep():
    rows = [Row(values={"a": name}, numbers={"test_auc": auc}) for name, auc in (("x", 0.1), ("y", 0.9))]
    assert [summary.values["a"] for summary in ranked_trials(rows, KINDS)] == ["x", "y"]


def test_the_file_holds_every_number_of_every_run():
    rows = [row("1", "0", 0.7), Row(values={"rate": "a,b", "seed": "1"}, failed='say "no"')]
    header, first, second = csv.reader(io.StringIO(csv_text(rows)))
    assert header == ["config.rate", "config.seed", "val_loss", "val_auc", "test_auc", "seconds", "failed"]
    assert first == ["1", "0", str(1 - 0.7), "0.7", "0.35", "1.5", ""]
    assert second == ["a,b", "1", "", "", "", "0.0", 'say "no"']


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_a_number_that_is_not_finite_has_no_deviation(odd: float):
    rows = [Row(values={"seed": str(n)}, numbers={"val_mae": mae}) for n, mae in enumerate((odd, 1.0))]
    assert table_lines(ranked_trials(rows, PRICE), PRICE)[1].split() == ["2", str(odd)]


def test_no_number_comes_after_all_numbers_and_before_a_failure():
    errors = {"c": 3.0, "nan": math.nan, "a": 1.0, "failed": None, "b": 2.0, "inf": math.inf}
    rows = [
        Row(values={"a": name}, failed="no disk")
        if error is None
        else Row(values={"a": name}, numbers={"val_rmse": error})
        for name, error in errors.items()
    ]
    assert [each.values["a"] for each in ranked_trials(rows, PRICE)] == [
        "a",
        "b",
        "c",
        "inf",
        "nan",
        "failed",
    ]

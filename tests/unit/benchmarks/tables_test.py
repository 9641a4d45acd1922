"""The table of tables: means over splits, roots of squared errors, and what reaches a baseline."""

import pytest

from benchmarks.tabular.comparison import markdown, summary

LINE = {"set": "a", "rows": 100, "metric": "auc", "prior": 0.5, "cpu_s": 40.0}
ERRORS = {"set": "b", "rows": 50, "metric": "mean_squared_error", "prior": 100.0, "cpu_s": 20.0}


def test_means_are_over_splits_and_margins_are_allowed():
    lines = [
        LINE | {"split": 0, "network": 0.90, "linear": 0.92, "boosting": 0.90},
        LINE | {"split": 1, "network": 0.92, "linear": 0.94, "boosting": 0.928},
    ]
    [row] = summary(lines)
    assert (row["network"], row["linear"], row["splits"]) == pytest.approx((0.91, 0.93, 2))
    assert row["spread"] == pytest.approx(0.01)
    assert (row["as_boosting"], row["as_linear"]) == (True, False)  # 0.004 and 0.02 below


def test_of_squared_errors_the_roots_are_compared():
    lines = [ERRORS | {"split": 0, "network": 25.0, "linear": 16.0, "boosting": 24.5}]
    [row] = summary(lines)
    assert (row["metric"], row["network"], row["prior"]) == ("rmse", 5.0, 10.0)
    assert (row["as_boosting"], row["as_linear"]) == (True, False)  # 1% and 25% above
    assert "1 of 1 reach HGB, 0 of 1 reach the linear model." in markdown([row])


def test_a_baseline_that_could_not_be_fitted_is_not_reached():
    [row] = summary([LINE | {"split": 0, "network": 0.9, "linear": 0.9}])
    assert (row["as_boosting"], row["as_linear"]) == (False, True)

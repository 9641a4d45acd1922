"""What the terminal says of a log point."""

import io
import re

import pytest

from pipeline.training.report.reporter import Progress, describe, number, summary

POINT = {
    "step": 1_200,
    "epoch": 2.3456,
    "loss": 0.41234,
    "accuracy": 0.8912,
    "examples_per_s": 5310.4,
    "step_ms": 12.06,
    "input_wait": 0.031,
}
LINE = (
    "step 1,200/5,000  epoch 2.35  loss 0.4123  accuracy 0.8912  "
    "5,310 examples/s  12.1 ms/step  input wait 3.1%"
)


def test_a_log_point_is_one_line():
    assert describe(POINT, 5_000) == LINE


def test_validation_follows_on_the_line():
    validation = {"split": "validation", "examples": 50, "loss": 0.5, "auc": 0.9}
    assert (
        describe(POINT | {"validation": validation}, 5_000) == f"{LINE}  validation: loss 0.5000 auc 0.9000"
    )


def test_summary_leaves_out_what_is_not_a_number():
    metrics = {"split": "test", "task": "binary", "loss": 0.25, "confusion_matrix": [[1]]}
    assert summary(metrics) == "test: loss 0.2500"


def test_small_numbers_keep_their_digits():
    assert summary({"split": "test", "rmse": 0.00094321, "mae": 0.0, "r2": -198.12841}) == (
        "test: rmse 0.0009432 mae 0.0000 r2 -198.1284"
    )


def test_large_numbers_are_short():
    assert summary({"split": "test", "loss": 168355168256.25, "rmse": 410_311.062, "mae": -1234.5678}) == (
        "test: loss 1.68355e+11 rmse 410311 mae -1234.57"
    )


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "nan"), (float("inf"), "inf"), (1e6, "1e+06")])
def test_numbers_at_the_edges(value, text):
    assert number(value) == text


def test_lines_where_nobody_watches():
    stream = io.StringIO()
    progress = Progress(total_steps=5_000, step=0, stream=stream)
    progress.show(POINT)
    progress.close()
    assert re.fullmatch(rf"{re.escape(LINE)}  left 0:00:\d\d\n", stream.getvalue())


def test_the_time_left_is_reckoned_from_the_end_of_the_first_step():
    stream, times = io.StringIO(), iter([0.0, 60.0, 70.0])
    progress = Progress(total_steps=5_000, step=1_099, stream=stream, clock=lambda: next(times))
    progress.first_step(12.34, 5.6)
    progress.show(POINT)
    first, line = stream.getvalue().splitlines()
    assert first == "first step done; tracing took 12.3 s, compiling and running it 5.6 s"
    assert line == f"{LINE}  left 0:06:20"  # 100 steps took 10 s, and 3,800 are left


def test_a_bar_where_someone_watches():
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = Progress(total_steps=5_000, step=1_000, stream=stream)
    progress.show(POINT)
    progress.close()
    assert "1200/5000" in stream.getvalue()
    assert "5,310 examples/s" in stream.getvalue()

"""The report that a run writes, and what it prints and records on the way."""

import dataclasses
import html.parser
import io
import json
import math
import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
from tqdm import tqdm

from pipeline.base.errors import InputError, printable_output
from pipeline.data.dataset import manifest, records
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.training.report.reporter import Progress, Summaries, describe, number, summary, write_report
from tests.shared import terminal
from tests.unit.training.report import report_examples as examples

# The page that a training run leaves: what it says, and that it says it whatever is missing.

VOID = {"meta"}


class Page(html.parser.HTMLParser):
    """What a browser makes of the page: its tags, its visible text, and whether tags are balanced."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.source = path.read_text()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(self.source)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def report(tmp_path: pathlib.Path, *, evaluation: dict | None, points: int = 40, **dataset) -> Page:
    directory = examples.write_dataset(tmp_path / "data", **dataset)
    examples.write_run(tmp_path / "run", directory, evaluation=evaluation, points=points)
    return Page(write_report(tmp_path / "run"))


def test_tells_metrics_data_speed_and_how_to_make_it_again(tmp_path):
    page = report(tmp_path, evaluation=examples.binary_evaluation())
    assert "2,000 steps · 1 min 33 s of training · 2 × CPU, Xeon · dataset 5d41402abc4b" in page.text
    assert "adult_wide_deep on adult 1.0.0 0.9127 test ROC AUC 0.8571 test accuracy" in page.text
    assert "rows read 29,307 rows written 29,304 rows rejected 3 (< 0.1 %)" in page.text
    assert "unparsable number 2 forty adult.csv, row 17, column age" in page.text
    assert "workclass categorical · vocabulary 20.0 % Private 87.5 %" in page.text
    assert "computing 97.9 % waiting for input 2.1 %" in page.text
    assert "step 6 ms (median), 31 ms at most FLOPs an example 250,000 (3 × forward)" in page.text
    assert (
        "share of the peak (MFU) unknown: no peak is known memory of the host 774.8 MiB at most" in page.text
    )
    assert "python -m beam_jobs.convert --input=train=adult.csv --output=adult/1.0.0" in page.text
    assert "python -m pipeline.train --config=pipeline/configs/adult_wide_deep.py" in page.text
    assert "tensorflow 2.21.0" in page.text
    assert page.open == []


def test_packed_text_is_counted_in_documents_and_blocks_in_rows(tmp_path):
    """100 documents were read, of which 97 fill the rows; a record holds thousands of rows."""
    directory = examples.write_dataset(tmp_path / "data")
    texts = {"train": {"documents": 87}, "test": {"documents": 10}}
    conversion = records.dumps_conversion({**examples.conversion(), "texts": texts})
    (directory / "conversion.json").write_text(conversion)
    rows = manifest.load(directory)
    splits = {
        split: tuple(dataclasses.replace(shard, records=2) for shard in shards)
        for split, shards in rows.splits.items()
    }
    blocks = dataclasses.replace(rows, layout="blocks", splits=splits)
    (directory / "manifest.json").write_text(manifest.dumps(blocks))
    examples.write_run(tmp_path / "run", directory, evaluation=None)
    page = Page(write_report(tmp_path / "run"))
    assert "documents read 100 rows written 29,304 documents rejected 3 (3.0 %)" in page.text
    assert "3.0 % of the documents were rejected." in page.text
    assert "Rejected documents reason documents for example" in page.text
    assert "train 26,048 88.9 % 1" in page.text


def test_what_examples_weigh_is_told_beside_the_plain_numbers(tmp_path):
    weighted = {"weighted_auc": 0.61234, "weighted_accuracy": 0.5, "weighted_loss": 0.7}
    evaluation = examples.binary_evaluation()
    page = report(tmp_path / "a", evaluation=evaluation | weighted)
    assert "With the weights of the examples: ROC AUC 0.6123, accuracy 0.5000, loss 0.7." in page.text
    assert "With the weights" not in report(tmp_path / "b", evaluation=evaluation).text


def test_train_split_comes_first_and_the_label_leads_the_features(tmp_path):
    page = report(tmp_path, evaluation=None)
    assert page.text.index("train 26,048") < page.text.index("test 3,256")
    assert page.text.index("income predicted") < page.text.index("age numeric")


def test_loads_nothing_and_runs_nothing_whatever_the_values_are(tmp_path):
    page = report(tmp_path, evaluation=examples.binary_evaluation())
    assert "<script>alert(1)</script>" in page.text  # shown as the text that it is
    assert not {"script", "img", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"(src|href)=|url\(|@import|https?://", page.source)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_confusion_matrix_of_any_number_of_classes(tmp_path, classes):
    names = tuple(f"class {i}" for i in range(classes))
    evaluation = {**examples.multiclass_evaluation(classes), "classes": list(names)}
    page = report(tmp_path, evaluation=evaluation, label=Label(name="y", task="multiclass", classes=names))
    matrix = np.asarray(evaluation["confusion_matrix"])
    assert page.source.count("<rect") == 1 + np.count_nonzero(matrix)
    assert f"{np.trace(matrix):,} of {matrix.sum():,} right." in page.text
    assert len(page.source) < 300_000


def test_regression_shows_errors_and_predicted_against_actual(tmp_path):
    label = Label(name="price", task="regression")
    page = report(tmp_path, evaluation=examples.regression_evaluation(), label=label)
    assert "25,012 test RMSE 19,805 test MAE 0.8312 test R²" in page.text
    assert "Predicted against actual" in page.text
    points = re.search(r'd="([^"]*)" class="points"', page.source)
    assert points and points[1].count("M") == 800  # a dot an example


def test_each_class_of_a_multilabel_has_its_numbers(tmp_path):
    label = Label(name="tags", task="multilabel", classes=("old", "new"))
    numbers = {"loss": 0.31, "auc": 0.9, "micro_f1": 0.8, "macro_f1": 0.25, "accuracy": 0.5}
    each = {
        "old": {"rate": 0.2, "f1": 0.5, "auc": 0.9},
        "new": {"rate": 0.0, "f1": 0.0, "auc": None},
    }
    evaluation = {"task": "multilabel", "split": "test", "examples": 800, "per_class": each} | numbers
    page = report(tmp_path, evaluation=evaluation, label=label)
    assert "0.9000 test mean ROC AUC 0.8000 test micro F1 0.2500 test macro F1 0.5000 test exact" in page.text
    assert "Each class class rate F1 AUC old 0.2 0.5 0.9 new 0 0" in page.text


def test_before_the_first_log_line(tmp_path):
    page = report(tmp_path, evaluation=None, points=0)
    assert "No evaluation yet." in page.text
    assert "Training has just begun" in page.text


def test_while_training_shows_the_latest_validation(tmp_path):
    page = report(tmp_path, evaluation=None, points=20)
    assert "0.9000 validation (step 1,000) ROC AUC" in page.text


def test_without_the_dataset_directory_uses_what_the_workdir_kept(tmp_path):
    directory = examples.write_dataset(tmp_path / "data")
    examples.write_run(tmp_path / "run", directory, evaluation=None)
    for name in ("schema.json", "statistics.pb"):
        (directory / name).rename(tmp_path / "run" / name)
    (directory / "manifest.json").unlink()
    page = Page(write_report(tmp_path / "run"))
    assert "Not shown: dataset" in page.text
    assert "age numeric · float32" in page.text


def test_of_an_empty_workdir(tmp_path):
    assert "Training has just begun" in Page(write_report(tmp_path)).text


def test_a_log_line_cut_short_is_left_out(tmp_path):
    directory = examples.write_dataset(tmp_path / "data")
    examples.write_run(tmp_path / "run", directory, evaluation=None, points=20)
    with (tmp_path / "run" / "history.jsonl").open("a") as history:
        history.write('{"step": 10')
    page = Page(write_report(tmp_path / "run"))
    assert "step 1,000 of 1,000, not finished" in page.text


def test_numbers_that_are_none_are_named_and_warned_of(tmp_path):
    directory = examples.write_dataset(tmp_path / "data")
    evaluation = {**examples.binary_evaluation(), "loss": math.nan}
    examples.write_run(tmp_path / "run", directory, evaluation=evaluation, points=1)
    line = {**examples.log_line(1, 1), "loss": math.nan, "input_wait": math.nan}
    (tmp_path / "run" / "history.jsonl").write_text(json.dumps(line))
    page = Page(write_report(tmp_path / "run"))
    assert "The training loss is not a finite number from step 50 on." in page.text
    assert "not a number test loss" in page.text
    assert not re.search(r"\bnan\b", page.source)


def test_five_hundred_features_fold_away_and_stay_small(tmp_path):
    values = np.random.default_rng(0).lognormal(size=1_000)
    features = [(Numeric(name=f"f{i}"), examples.numeric(f"f{i}", values)) for i in range(500)]
    page = report(tmp_path, evaluation=None, features=features)
    assert "471 more features" in page.text
    assert len(page.source) < 1_000_000


def test_points_out_what_a_careful_reader_would_notice(tmp_path):
    features = [
        (Numeric(name="same"), examples.numeric("same", np.full(100, 7.0))),
        (Numeric(name="rare", missing="mark"), examples.numeric("rare", np.arange(10.0), missing=90)),
    ]
    guessing = {**examples.binary_evaluation(), "confusion_matrix": [[12_435, 0], [3_846, 0]]}
    page = report(tmp_path, evaluation=guessing, features=features, examples=100)
    assert "The same value in every row: same." in page.text
    assert "Missing in more than half of the rows: rare." in page.text
    assert "Always answering “<=50K” is right as often, or more often." in page.text
    assert "Never predicted: >50K." in page.text


def test_a_page_replaces_the_one_before_and_leaves_nothing_else(tmp_path):
    write_report(tmp_path)
    write_report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# What the terminal says of a log point.

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


@pytest.mark.parametrize("columns", [80, 120])
def test_a_bar_on_a_terminal_stands_below_all_lines_and_within_its_width(columns, monkeypatch):
    with terminal.opened(columns=columns) as (device, screen), open(device, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        with printable_output():
            progress = Progress(total_steps=5_000, step=1_000)
            print("strategy   one_device")
            progress.first_step(12.34, 5.6)
            progress.show(POINT)
            print("Epoch 2: early stopping\nof a callback")
            with tqdm(total=3, desc="checking", leave=False) as inner:
                inner.update(2)
                print("a warning \x1b[31m", file=sys.stderr)
                inner.refresh()
            progress.show(POINT | {"step": 5_000, "validation": {"split": "test", "loss": 0.5}})
            progress.close()
            print("report: run/report.html")
    seen = screen()
    *lines, bar, last = seen.lines
    assert not seen.obeyed
    expected = [
        "strategy   one_device",
        "first step done; tracing took 12.3 s, compiling and running it 5.6 s",
        "Epoch 2: early stopping",
        "of a callback",
        "a warning \\x1b[31m",
        f"{LINE.replace('1,200', '5,000')}  test: loss 0.5000",
    ]
    # The terminal breaks a long line, at a space perhaps.
    assert "".join(lines).replace(" ", "") == "".join(expected).replace(" ", "")
    assert re.match(r"100%\|█* *\| 5000/5000 \[.*loss 0.4123", bar)
    assert last == "report: run/report.html"
    assert any(re.match(r" 24%\|.* 1200/5000 ", frame) for frame in seen.frames)


# What TensorBoard reads of a run.


@pytest.mark.parametrize(
    ("value", "written"), [(0.25, 0.25), (1e60, math.inf), (-3.5e38, -math.inf), (math.nan, math.nan)]
)
def test_a_number_of_any_size_is_written(tmp_path, value, written):
    summaries = Summaries(tmp_path)
    summaries.write({"step": 7, "loss": value, "epoch": 1, "validation": {"split": "test", "loss": value}})
    summaries.close()
    for run in ("train", "evaluation"):
        (file,) = (tmp_path / run).iterdir()
        (event,) = [each for each in tf.compat.v1.train.summary_iterator(str(file)) if each.summary.value]
        (found,) = event.summary.value
        assert (event.step, found.tag) == (7, "loss")
        assert float(tf.make_ndarray(found.tensor)) == pytest.approx(written, nan_ok=True)


def test_what_stands_in_the_place_of_their_directory_is_told(tmp_path):
    (tmp_path / "summaries").write_text("")
    with pytest.raises(InputError, match=r"^summaries \S+/summaries: received "):
        Summaries(tmp_path / "summaries")

"""Training runs beside each other: what is read, what differs, what a page and JSON show."""

import dataclasses
import json
import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.report import html, terminal
from pipeline.training.report import runs as runs_lib
from pipeline.training.report.runs import MOST_CURVES, curves, differing, read_runs, tables, to_json
from pipeline.training.state import run_record, workdir
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

RECORD = RunRecord(
    dataset_digest="d" * 32,
    order=1,
    update=1,
    augmentation=0,
    config={"seed": 0, "optimizer": {"name": "adam", "learning_rate": 0.1}, "callbacks": []},
    precision={"policy": "float32"},
    total_steps=20,
    steps=20,
    seconds=61.0,
    finished=True,
)


def write_run(directory: pathlib.Path, *, loss: float = 0.5, **changes: object) -> pathlib.Path:
    record, files = dataclasses.replace(RECORD, **changes), Workdir(directory)
    directory.mkdir(parents=True)
    run_record.write(files.run, record)
    for step in (10, 20):
        point = {"step": step, "loss": loss + 1 / step, "validation": {"split": "validation", "auc": 0.8}}
        workdir.append_history(files.history, point)
    if record.finished:
        files.evaluation.write_text(json.dumps({"split": "test", "examples": 7, "loss": loss, "auc": 0.75}))
    return directory


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    write_run(tmp_path / "runs/a")
    faster = {"seed": 0, "optimizer": {"name": "adam", "learning_rate": 0.2}, "callbacks": [], "new": True}
    write_run(tmp_path / "runs/b", loss=0.25, config=faster, finished=False, steps=10)
    (tmp_path / "runs" / "a.log").write_text("no run")
    return tmp_path / "runs"


def test_only_what_is_not_the_same_is_listed(folder):
    found = differing(read_runs([folder]))
    assert found == {"optimizer.learning_rate": ["0.1", "0.2"], "new": ["", "true"]}


def test_the_tables_hold_final_metrics_and_how_far_a_run_is(folder):
    text = terminal.render(tables(read_runs([folder])))
    rows = [line.split() for line in text.splitlines()]
    assert ["run", "steps", "time", "test", "loss", "test", "auc"] in rows
    assert ["a", "20", "1", "min", "01", "s", "0.5", "0.75"] in rows
    assert ["b", "10", "of", "20", "1", "min", "01", "s", "–", "–"] in rows


def test_runs_are_named_by_what_their_paths_do_not_share(folder, tmp_path):
    other = write_run(tmp_path / "older" / "a")
    names = [run.name for run in read_runs([folder, other, folder / "a"])]
    assert names == ["runs/a", "runs/b", "older/a"]


def test_a_chart_has_a_line_for_each_run_in_a_colour_of_its_own(folder):
    section = curves(read_runs([folder]))
    page = html.page(runs_lib.tables(read_runs([folder]))[0], [section])
    titles = [each.title for each in section.parts if each]
    assert titles == ["training loss", "validation auc"]
    assert page.count('class="line run0"') == page.count('class="line run1"') == len(titles)
    assert f".run{MOST_CURVES - 1} {{" in page


def test_the_page_says_which_runs_have_no_curve(tmp_path):
    for number in range(MOST_CURVES + 1):
        write_run(tmp_path / f"{number}", config={"seed": number})
    note, loss, _ = [each for each in curves(read_runs([tmp_path])).parts if each]
    assert note.text == "Curves of the first 8 of 9 runs."
    assert str(loss.drawing).count('class="line run') == MOST_CURVES


def test_json_has_each_run_with_what_sets_it_apart(folder):
    first, second = to_json(read_runs([folder]))["runs"]
    assert first["metrics"] == {"test loss": 0.5, "test auc": 0.75}
    assert second["settings"] == {"optimizer.learning_rate": "0.2", "new": "true"}
    assert (second["finished"], second["steps"], second["metrics"]) == (False, 10, {})


def test_fewer_than_two_runs_are_refused(tmp_path):
    write_run(tmp_path / "runs" / "only")
    with pytest.raises(InputError, match="--runs: received 1 run; expected two or more"):
        read_runs([tmp_path / "runs"])
    with pytest.raises(InputError, match=r"--runs=.*nowhere: received no such directory"):
        read_runs([tmp_path / "nowhere"])


def test_a_damaged_record_is_named(folder):
    (folder / "b" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"b/run\.json"):
        read_runs([folder])


def test_an_evaluation_that_is_no_object_is_named(folder):
    (folder / "a" / "evaluation.json").write_text("[1]")
    with pytest.raises(
        InputError, match=r"a/evaluation\.json: received invalid JSON \(list in place of an obj"
    ):
        read_runs([folder])

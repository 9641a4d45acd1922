"""Sweeps of real runs: what is done is not done again, and a failure ends only its own run."""

import contextlib
import csv
import io
import math
import os
import pathlib
import select
import signal
import subprocess
import sys

import numpy as np
import pytest
from ml_collections import ConfigDict

from pipeline.base.cli import config as config_lib
from pipeline.base.cli.config import swept
from pipeline.base.errors import InputError
from pipeline.configs import tabular
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.schema.feature_types import Label
from pipeline.training.launch import grid, sweep
from pipeline.training.launch.grid import Point, check_given_once, points
from pipeline.training.launch.sweep import Row, Trial, csv_text, ranked_trials, table_lines
from pipeline.training.state import run_record
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

SWEEP = "config.optimizer.name=adam,adan"


@pytest.fixture
def config(tmp_path: pathlib.Path) -> tuple[ConfigDict, str]:
    file = tmp_path / "short.py"
    file.write_text(
        "from tests.shared import small_run\n"
        "def get_config():\n"
        "    config = small_run.small_config()\n"
        "    config.train.steps = 3\n"
        "    return config\n"
    )
    made = small_config()
    made.train.steps = 3
    return made, f"--config={file}"


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> Dataset:
    return write_small_dataset(tmp_path / "tiny")


WAITS = "import os, signal\nprint('process', os.getpid(), flush=True)\nsignal.pause()\n"
KILLED_WHEN_BEGUN = """
import os, pathlib, threading
from pipeline.training.state.workdir import Workdir
from pipeline.training.launch.grid import points
from pipeline.training.launch.sweep import Trial

def end():
    while "process" not in pathlib.Path("run.log").read_text():
        pass
    os.kill(os.getpid(), 9)

pathlib.Path("run.log").touch()
threading.Thread(target=end).start()
(point,) = points("config.seed=1")
Trial(point=point, workdir=Workdir(pathlib.Path("run")), config=None).train(["waits"], came=lambda: 0)
"""


@pytest.mark.slow
def test_no_run_outlives_a_sweep_that_is_killed(tmp_path):
    (tmp_path / "waits.py").write_text(WAITS)
    paths = {"PYTHONPATH": f"{pathlib.Path.cwd()}:{tmp_path}"}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHEN_BEGUN], cwd=tmp_path, env={**os.environ, **paths}, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    number = int((tmp_path / "run.log").read_text().split()[1])
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        run = os.pidfd_open(number)
        assert select.select([run], [], [], 60)[0]  # readable when it has ended


@pytest.mark.slow
def test_a_sweep_goes_on_and_a_failure_ends_only_its_run(
    tmp_path, config, dataset, warm_python, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "executable", str(warm_python))
    root, (made, file) = tmp_path / "sweep", config

    def again() -> str:
        with pytest.raises(InputError, match=r"1 of 2 runs: received a failure.*name=adan.log"):
            sweep.run(
                grid.points(SWEEP),
                config_of=lambda point: parsed(config_lib.swept(made, point.values)).given,
                dataset=dataset,
                root=root,
                command=[
                    "pipeline.train",
                    file,
                    f"--dataset={dataset.directory}",
                    "--sweep",
                    SWEEP,
                    "--workdir=ignored",
                ],
            )
        return (root / "sweep.csv").read_text()

    first = again()
    header, done, failed = first.splitlines()
    assert header.startswith("config.optimizer.name,val_loss,")
    assert done.startswith("adam,0.")
    assert failed.startswith("adan,") and "optimizer.name: received 'adan'" in failed
    run = Workdir(root / "optimizer.name=adam")
    before = run.run.stat().st_mtime_ns
    assert again() == first
    assert run.run.stat().st_mtime_ns == before  # not even opened for writing
    assert "adam" in capsys.readouterr().out


def test_a_signal_is_passed_on(tmp_path, config, monkeypatch):
    told = tmp_path / "told"
    program = tmp_path / "python"  # a run that never ends by itself, and saves when asked to stop
    program.write_text(f'#!/bin/sh\ntrap "echo saved > {told}; exit 143" TERM\nwhile :; do :; done\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    (point,) = grid.points("config.seed=1")
    trial = Trial(point=point, workdir=Workdir(tmp_path / "run"), config=parsed(config[0]).given)
    assert trial.train([], came=lambda: signal.SIGTERM) == 143
    assert told.read_text() == "saved\n"


def test_a_run_of_another_config_is_not_taken_for_this_one(tmp_path, config):
    (point,) = grid.points("config.seed=1")
    trial = Trial(point=point, workdir=Workdir(tmp_path / "nowhere"), config=parsed(config[0]).given)
    assert not trial.is_finished(dataset_digest="0")


def test_a_run_on_a_mixture_that_is_another_now_is_not_finished(tmp_path, config, dataset):
    config[0].mixture = ((str(dataset.directory), "train", 1.0),)
    made = parsed(config[0]).given
    workdir = Workdir(tmp_path / "run")
    workdir.path.mkdir()
    workdir.evaluation.write_text("{}")
    (point,) = grid.points("config.seed=1")
    trial = Trial(point=point, workdir=workdir, config=made)
    digest = dataset.manifest.digest
    for trained_on, is_finished in ((digest, True), ("0" * 64, False)):
        record = RunRecord(
            dataset_digest=digest,
            order=1,
            update=1,
            augmentation=0,
            mixture_digests=(trained_on,),
            config=made,
            precision={},
            total_steps=3,
            finished=True,
        )
        run_record.write(workdir.run, record)
        assert trial.is_finished(dataset_digest=digest) is is_finished


def test_a_single_runs_directory_is_refused(tmp_path, config, dataset):
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(InputError, match="received the working directory of a single run"):
        sweep.run(
            grid.points("config.seed=1"),
            config_of=lambda point: {},
            dataset=dataset,
            root=tmp_path,
            command=[],
        )


def test_a_run_that_began_with_other_weights_is_not_finished(tmp_path, config):
    workdir = Workdir(tmp_path / "run")
    workdir.path.mkdir()
    workdir.evaluation.write_text("{}")
    (point,) = grid.points("config.seed=1")
    record = RunRecord(
        dataset_digest="0",
        order=1,
        update=1,
        augmentation=0,
        config=parsed(config[0]).given,
        precision={},
        total_steps=3,
        finished=True,
        warm_start={"workdir": "/champion"},
    )
    run_record.write(workdir.run, record)
    for asked, is_finished in (("/champion", True), ("/other", False), (None, False)):
        warm_start = asked and pathlib.Path(asked)
        trial = Trial(point=point, workdir=workdir, config=parsed(config[0]).given, warm_start=warm_start)
        assert trial.is_finished(dataset_digest="0") is is_finished


# The text of --sweep becomes points, and each point a config.


def values(text: str) -> list[dict]:
    return [dict(point.values) for point in points(text)]


def test_every_combination_is_a_point_and_the_last_key_changes_fastest():
    assert values("config.optimizer.learning_rate=1e-3,3e-3; config.seed=0,1") == [
        {"optimizer.learning_rate": "1e-3", "seed": "0"},
        {"optimizer.learning_rate": "1e-3", "seed": "1"},
        {"optimizer.learning_rate": "3e-3", "seed": "0"},
        {"optimizer.learning_rate": "3e-3", "seed": "1"},
    ]


def test_a_comma_in_brackets_belongs_to_a_value():
    (small, large) = points("--config.model.hidden=(64,32),(256,)")
    assert [point.values["model.hidden"] for point in (small, large)] == ["(64,32)", "(256,)"]
    assert swept(tabular.get_config(), small.values).model.hidden == (64, 32)
    assert swept(tabular.get_config(), large.values).model.hidden == (256,)


def test_keys_of_the_model_need_no_declaration_and_are_read_as_literals():
    literals = {"8": 8, "(1,(2,3))": (1, (2, 3)), "{'a': 1}": {"a": 1}, "None": None, "true": True, "x": "x"}
    config = tabular.get_config()
    for text, value in literals.items():
        made = swept(config, {"model.own": text, "model.part.width": text}).to_dict()["model"]
        assert (made["own"], made["part"], made["name"]) == (value, {"width": value}, "tabular")
    assert "own" not in config.model


def test_another_model_than_the_files_begins_without_the_files_arguments():
    same = swept(tabular.get_config(), {"model.name": "tabular"})
    assert same.model.to_dict() == tabular.get_config().model.to_dict()
    other = swept(tabular.get_config(), {"model.name": "net:build", "model.width": "8"})
    assert other.model.to_dict() == {"name": "net:build", "width": 8}


def test_brackets_in_brackets_belong_to_a_value():
    mixture = "(('b','train',1.0),('c','train',2.0))"
    (mixed, alone) = points(f"config.mixture={mixture},()")
    assert (mixed.values["mixture"], alone.values["mixture"]) == (mixture, "()")
    made = swept(tabular.get_config(), mixed.values).mixture
    assert made == (("b", "train", 1.0), ("c", "train", 2.0))


def test_values_take_the_types_of_the_config_and_leave_it_as_it_was():
    config = tabular.get_config()
    (point,) = points(
        "config.train.epochs=2;config.train.jit_compile=true;config.seed=7;config.optimizer.name=sgd"
    )
    made = swept(config, point.values)
    assert (made.train.epochs, made.train.jit_compile, made.seed, made.optimizer.name) == (
        2.0,
        True,
        7,
        "sgd",
    )
    assert (config.train.epochs, config.seed) == (0.0, 0)  # 0: by the rows


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed=1,2", "received seed=1,2; expected config.KEY=VALUE"),
        ("config.seed", "received config.seed; expected"),
        ("config.seed=", "expected config.KEY=VALUE"),
        ("config.seed=1,,2", "expected config.KEY=VALUE"),
        ("config.=1", "expected config.KEY=VALUE"),
        (" ; ;", "received no key"),
        ("config.seed=1;config.seed=2", "config.seed twice; expected each key once. Name it once."),
        ("config.seed=1,1", "config.seed=1 twice; expected each value once. Name it once."),
        (";".join(f"config.a{n}=1,2" for n in range(64)), "more than 1,000 combinations"),
    ],
)
def test_what_is_no_sweep_is_told(text: str, told: str):
    with pytest.raises(InputError, match=r"--sweep") as raised:
        points(text)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config.optimizer.learning_rat=1", "Did you mean config.optimizer.learning_rate"),
        ("config.seed=one", "config.seed=one"),
        ("config.train.epochs=many", "config.train.epochs=many"),
    ],
)
def test_a_value_that_the_config_cannot_have_is_told(text: str, told: str):
    (point,) = points(text)
    with pytest.raises(InputError) as raised:
        swept(tabular.get_config(), point.values)
    assert told in str(raised.value)


def test_names_of_directories_differ_and_hold_nothing_odd():
    odd = [
        {"a": "x/y"},
        {"a": "x_y"},
        {"a": "../.."},
        {"a": "é" * 200},
        {"a": "e" * 200},
        {"a": "1", "b": "2"},
        {"a": "1,b=2"},
        {"a": "x y"},
        {"a": "x;y"},
    ]
    names = [Point(values=values).name for values in odd]
    assert all("/" not in name and name.isascii() and len(name) < 140 for name in names)
    assert len({*names[:5], *names[7:]}) == 7


def test_a_key_that_is_also_set_is_told():
    (point,) = points("config.seed=1")
    check_given_once(["--config=x.py", "--config.seedling=1"], point)
    with pytest.raises(InputError, match=r"--config.seed: received a value, and several in --sweep"):
        check_given_once(["--config=x.py", "--config.seed=3"], point)


# Rows of a sweep become a table; means and deviations are those of the statistics module's textbook.

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

"""Sweeps of real runs: what is done is not done again, and a failure ends only its own run."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys

import pytest
from ml_collections import ConfigDict

from pipeline.base.cli import config as config_lib
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.training.launch import grid, sweep
from pipeline.training.launch.sweep import Trial
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
                    f"--sweep={SWEEP}",
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

"""Runs in MLflow, TensorBoard and Weights & Biases, read back: the last by its messages."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pipeline.training.observers import registry
from pipeline.training.observers.delivery import Observers
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.workdir import Workdir
from tests.shared.small_run import write_small_dataset
from tests.unit.training.observers.delivery_test import RECORD

_LOG_BLOCK = 32768
ROOT = pathlib.Path(__file__).parents[4]
CONFIG = """
from tests.shared.small_run import small_config

def get_config():
    config = small_config()
    config.evaluation.metrics = ("recall@0.3",)
    config.observers = {observers!r}
    config.callbacks = ({{"class_name": "killer:Killer", "config": {{"mark": {mark!r}}}}},)
    return config
"""
KILLER = """
import os, pathlib, signal
import keras

class Killer(keras.callbacks.Callback):
    '''Kills the process at the end of its second epoch, once.'''

    def __init__(self, mark):
        super().__init__()
        self.mark = pathlib.Path(mark)

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1 and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
"""


def train(folder: pathlib.Path, observers: tuple, **environment: str) -> list[subprocess.CompletedProcess]:
    """Trains by the command, in two processes: the first is killed -9."""
    (folder / "killer.py").write_text(KILLER)
    (folder / "experiment.py").write_text(CONFIG.format(observers=observers, mark=str(folder / "mark")))
    if not (folder / "data").exists():
        write_small_dataset(folder / "data" / "1.0.0")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [
        *(sys.executable, "-m", "pipeline.train", f"--config={folder / 'experiment.py'}"),
        *(f"--dataset={folder / 'data' / '1.0.0'}", f"--workdir={folder / 'run'}", "--precision=float32"),
    ]
    return [
        subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    ]


@contextlib.contextmanager
def mlflow_server(folder: pathlib.Path) -> Iterator[str]:
    """A real server on a free port; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}", "--workers=1"),
        *(f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder}/artifacts"),
    ]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True, **options)
    try:
        said = []
        for line in server.stdout:
            said.append(line)
            if "startup complete" in line:
                break
        else:
            pytest.fail("".join(said))
        threading.Thread(target=server.stdout.read, daemon=True).start()  # or it waits for a reader
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


@pytest.mark.slow
def test_mlflow_has_one_run_of_two_processes_the_first_of_which_was_killed(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="of requirements/observers.txt")
    pytest.importorskip("sqlalchemy", reason="the server is not in mlflow-skinny")
    with mlflow_server(tmp_path) as address:
        secret = address.replace("http://", "http://me:hunter2@")
        observers = ({"class_name": "mlflow", "config": {"tracking_uri": secret, "experiment": "tiny"}},)
        killed, finished = train(tmp_path, observers)
        assert (killed.returncode, finished.returncode) == (-signal.SIGKILL, 0), finished.stderr
        client = mlflow.MlflowClient(address)
        (run,) = client.search_runs([client.get_experiment_by_name("tiny").experiment_id])
        history = workdir_lib.read_history(tmp_path / "run" / "history.jsonl")
        losses = client.get_metric_history(run.info.run_id, "loss")
        validated = client.get_metric_history(run.info.run_id, "val_recall_0.3")
        artifacts = [each.path for each in client.list_artifacts(run.info.run_id)]
    assert (run.info.status, artifacts) == ("FINISHED", ["report.html"])
    assert [(each.step, each.value) for each in losses] == [(each["step"], each["loss"]) for each in history]
    assert [(each.step, each.value) for each in validated] == [
        (each["step"], each["validation"]["recall@0.3"]) for each in history if "validation" in each
    ]
    evaluation = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert run.data.metrics["test_auc"] == evaluation["auc"]
    assert run.data.params["optimizer.learning_rate"] == "0.05"
    (source,) = run.inputs.dataset_inputs
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["dataset_digest"].startswith(source.dataset.digest)
    # The password is nowhere but in the user's own file.
    told = killed.stdout + killed.stderr + finished.stdout + finished.stderr
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    page = f"{address.replace('//', '//…@')}/#/experiments/1/runs/{run.info.run_id}"
    assert f"MLflow: {page}" in finished.stdout
    assert "hunter2" not in told + str(run.data.params) + str(run.data.tags)
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]


@pytest.mark.slow
def test_a_server_that_is_away_is_told_of_once_and_the_run_ends_well(tmp_path):
    pytest.importorskip("mlflow", reason="of requirements/observers.txt")
    (tmp_path / "mark").touch()  # nothing is killed
    observers = ({"class_name": "mlflow", "config": {"tracking_uri": "http://me:hunter2@127.0.0.1:1"}},)
    finished, _ = train(tmp_path, observers)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("observer mlflow failed") == 1
    assert "hunter2" not in finished.stdout + finished.stderr


def test_tensorboard_reads_the_settings_and_how_the_run_ended(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    for end in (False, True):  # a process that is killed, and one that goes on
        observers = Observers(registry.build(["hparams"]), Workdir(tmp_path), tell=pytest.fail)
        observers.started(RECORD, [])
        if end:
            observers.finished(3, {}, tmp_path / "report.html")
    read = EventAccumulator(str(tmp_path / "summaries"))
    read.Reload()
    found = read.SummaryMetadata  # by tag
    begun = metadata.parse_session_start_info_plugin_data(
        found(metadata.SESSION_START_INFO_TAG).plugin_data.content
    )
    ended = metadata.parse_session_end_info_plugin_data(
        found(metadata.SESSION_END_INFO_TAG).plugin_data.content
    )
    assert {name: value.WhichOneof("kind") for name, value in begun.hparams.items()} == {
        "seed": "number_value",
        "optimizer.name": "string_value",
    }
    assert begun.hparams["optimizer.name"].string_value == "adamw"
    assert (begun.group_name, ended.status) == (begun.group_name, 1)  # STATUS_SUCCESS


@pytest.mark.slow
def test_wandb_writes_offline_one_run_of_two_processes(tmp_path):
    wandb = pytest.importorskip("wandb", reason="of requirements/observers.txt")
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    for last in (2, 3):  # a process that stops, and one that goes on
        observers = Observers(
            registry.build([{"class_name": "wandb", "config": {"mode": "offline"}}]),
            Workdir(tmp_path),
            tell=pytest.fail,
        )
        observers.started(RECORD, [])
        observers.logged(
            {"step": last, "loss": 1.0 / last, "validation": {"split": "validation", "auc": 0.5}}
        )
        if last == 3:
            observers.finished(3, {"split": "test", "auc": 0.9}, _report(tmp_path))
        wandb.teardown()
    ids, losses = set(), {}
    for file in sorted(tmp_path.glob("wandb/offline-run-*/*.wandb")):
        for data in log_records(file.read_bytes()):
            record = messages.Record.FromString(data)
            ids |= {record.run.run_id} - {""}
            items = {each.key or each.nested_key[0]: each.value_json for each in record.history.item}
            if "loss" in items:
                losses[int(items["_step"])] = float(items["loss"])
    assert len(ids) == 1
    assert len(list(tmp_path.glob("wandb/offline-run-*/files/report.html"))) == 1
    assert losses == {2: 0.5, 3: pytest.approx(1 / 3)}


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, behind the 7 bytes that W&B begins it with."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = _LOG_BLOCK - at % _LOG_BLOCK
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def _report(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "report.html"
    path.write_text("<p>")
    return path

"""A run learns, and a run that is cut off anywhere ends as if it had not been."""

import csv
import dataclasses
import json
import pathlib
import shutil
import signal
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.base.cli.signals import Interrupted
from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import evaluation_batches
from pipeline.data.reading.sharding import Share
from pipeline.training.experiment import restore
from pipeline.training.experiment.config import Experiment
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import goodput
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.goodput import time_spent
from pipeline.training.tasks.registry import EvaluationMetrics
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset


class KilledError(Exception):
    """What takes the place of kill -9 inside one process."""


class KillAfter(keras.callbacks.Callback):
    step = 0

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if int(np.asarray(self.model.optimizer.iterations)) >= KillAfter.step:
            raise KilledError


@pytest.fixture
def train_and_kill(monkeypatch):
    """Trains until a step is done, and there ends without any clean-up of the loop's."""

    def train(request: Request, step: int) -> None:
        monkeypatch.setattr(KillAfter, "step", step)
        with monkeypatch.context() as changed, pytest.raises(KilledError):
            changed.setattr(run.callbacks, "build", lambda specs, **rest: [KillAfter()])
            run.train(request)

    return train


@pytest.fixture(scope="module")
def undisturbed(dataset, tmp_path_factory) -> Request:
    """A finished run that nothing happened to."""
    request = Request(
        experiment=parsed(small_config()),
        dataset=dataset,
        workdir=tmp_path_factory.mktemp("undisturbed"),
        strategy="one_device",
        precision="mixed_bfloat16",
        baseline=True,
    )
    run.train(request)
    return request


def history(workdir: pathlib.Path) -> list[dict]:
    """The lines of history.jsonl without what a clock says."""
    lines = [json.loads(line) for line in (workdir / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in workdir_lib.MEASURED} for line in lines]


def test_learns_and_leaves_whole_files(undisturbed):
    metrics = workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert (metrics["split"], metrics["examples"]) == ("test", 70)
    assert metrics["auc"] > 0.9
    record = workdir_lib.read_json(undisturbed.workdir / "run.json")
    assert (record["steps"], record["total_steps"], record["finished"]) == (38, 38, True)
    assert history(undisturbed.workdir)[-1]["validation"]["examples"] == 50
    assert (undisturbed.workdir / "report.html").exists()
    baselines = workdir_lib.read_json(undisturbed.workdir / "baselines.json")
    assert baselines["network"]["auc"]["value"] == pytest.approx(metrics["auc"], abs=1e-6)
    assert [each["name"] for each in baselines["baselines"]] == ["prior", "linear", "boosting"]


# Before the first checkpoint; between two of them, past the end of an epoch (step 13); just before the end.
@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 15, 37])
def test_killed_run_ends_bit_for_bit_like_the_undisturbed_one(
    request_for, train_and_kill, tmp_path, undisturbed, step
):
    request = request_for(tmp_path, precision="mixed_bfloat16")
    train_and_kill(request, step)
    assert run.train(request) == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert history(tmp_path) == history(undisturbed.workdir)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_layers_that_are_computed_again(
    request_for, config, train_and_kill, tmp_path, undisturbed
):
    train_and_kill(request_for(tmp_path, precision="mixed_bfloat16"), 15)
    config.train.remat = ("dense*", "dropout*")
    request = request_for(tmp_path, experiment=parsed(config), precision="mixed_bfloat16")
    assert run.train(request) == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert history(tmp_path) == history(undisturbed.workdir)


# A rate of 0 learns nothing, so no evaluation is better than the first.


def patient(config: ConfigDict) -> Experiment:
    config.optimizer.learning_rate, config.train.epochs = 0.0, 6.0
    config.train.keep_best, config.train.patience = "val_loss", 2
    return parsed(config)


STOPPED = (
    "stopped at epoch 3: val_loss was not better for 2 evaluations; the best was that of epoch 1, which is"
)


def test_a_run_that_learns_nothing_more_stops_and_says_so(request_for, config, tmp_path, capsys):
    metrics = run.train(request_for(tmp_path, experiment=patient(config)))
    record = workdir_lib.read_json(tmp_path / "run.json")
    assert (record["steps"], record["total_steps"], record["finished"]) == (38, 75, True)
    assert STOPPED in capsys.readouterr().out
    assert metrics["step"] == 13  # the end of epoch 1


@pytest.mark.slow
@pytest.mark.parametrize("step", [20, 30])  # after one evaluation, and after two
def test_a_killed_run_stops_at_the_same_step(request_for, config, monkeypatch, tmp_path, capsys, step):
    whole = request_for(tmp_path / "whole", experiment=patient(config))
    expected, build = run.train(whole), run.callbacks.build
    request = request_for(tmp_path / "killed", experiment=patient(config))
    monkeypatch.setattr(KillAfter, "step", step)
    with monkeypatch.context() as changed, pytest.raises(KilledError):
        changed.setattr(run.callbacks, "build", lambda specs, **rest: [*build(specs, **rest), KillAfter()])
        run.train(request)
    capsys.readouterr()
    assert run.train(request) == expected
    assert STOPPED in capsys.readouterr().out
    assert history(request.workdir) == history(whole.workdir)


# Step 16 is neither a log point nor a checkpoint.
@pytest.mark.slow
def test_a_run_that_is_asked_to_stop_ends_bit_for_bit_like_the_undisturbed_one(
    request_for, monkeypatch, tmp_path, undisturbed
):
    request = request_for(tmp_path, precision="mixed_bfloat16")
    with monkeypatch.context() as changed, pytest.raises(Interrupted, match="saved at step 16"):
        asked = iter([0] * 6 + [signal.SIGTERM])  # stops: 4, 6, 8, 10, 12, 13, 16
        changed.setattr(run.strategy, "largest", lambda strategy, came: lambda: next(asked))
        run.train(request)
    assert run.train(request) == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert history(tmp_path) == history(undisturbed.workdir)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_draws_that_no_layer_keeps_go_on_after_a_kill(
    strategy, config, request_for, train_and_kill, tmp_path
):
    config.model = ConfigDict({"name": "tests.shared.unseeded_model:unseeded"})
    config.train.steps = 18
    given = {"experiment": parsed(config), "strategy": strategy}
    whole = run.train(request_for(tmp_path / "whole", **given))
    killed = request_for(tmp_path / "killed", **given)
    train_and_kill(killed, 10)
    assert run.train(killed) == whole


@pytest.mark.slow
def test_a_damaged_checkpoint_gives_way_to_the_one_before(undisturbed, request_for, tmp_path, capsys):
    workdir = shutil.copytree(undisturbed.workdir, tmp_path / "run")
    (workdir / "checkpoints" / "step-00000038" / "variables.index").unlink()
    metrics = run.train(request_for(workdir, precision="mixed_bfloat16"))
    told = capsys.readouterr().out
    assert "an older one is taken: step-00000038/variables.index: no such file" in told
    assert "continuing from step 36" in told
    assert metrics == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert history(workdir) == history(undisturbed.workdir)
    assert not list((workdir / "checkpoints").glob("*.damaged"))  # its step is saved again


def test_where_all_checkpoints_are_damaged_nothing_is_changed(undisturbed, request_for, tmp_path):
    workdir = shutil.copytree(undisturbed.workdir, tmp_path / "run")
    for path in (workdir / "checkpoints").glob("*/variables.index"):
        path.write_bytes(b"")
    before = {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"damaged files \(step-00000038/variables.index: 0 bytes"):
        run.train(request_for(workdir, precision="mixed_bfloat16"))
    del before[workdir / "ledger.jsonl"]  # says how long this process ran
    assert {path: path.read_bytes() for path in before} == before
    assert not list((workdir / "checkpoints").glob("*.*"))


@pytest.mark.slow
def test_blocks_train_bit_for_bit_as_records_do(request_for, tmp_path, config):
    config.shuffle = "global"
    of_records = run.train(request_for(tmp_path / "rows"))
    blocks = write_small_dataset(tmp_path / "blocks", layout="blocks")
    of_blocks = dataclasses.replace(request_for(tmp_path / "run"), dataset=blocks)
    assert run.train(of_blocks) == of_records
    assert history(tmp_path / "run") == history(tmp_path / "rows")


@pytest.mark.slow
def test_a_killed_run_on_a_mixture_ends_like_the_undisturbed_one(
    request_for, train_and_kill, tmp_path, config
):
    other = write_small_dataset(tmp_path / "other")
    config.mixture = ((str(other.directory), "validation", 0.5),)
    metrics = run.train(request_for(tmp_path / "undisturbed"))
    train_and_kill(request_for(tmp_path / "killed"), 15)
    assert run.train(request_for(tmp_path / "killed")) == metrics
    assert history(tmp_path / "killed") == history(tmp_path / "undisturbed")


@pytest.mark.slow
def test_replicas_may_change_on_the_way_and_change_nothing(request_for, train_and_kill, tmp_path, config):
    config.model.dropout = 0.0  # whose random numbers are each replica's own
    one = run.train(request_for(tmp_path / "one"))
    train_and_kill(request_for(tmp_path / "two", strategy="mirrored"), 15)
    assert workdir_lib.read_json(tmp_path / "two" / "run.json")["replicas"] == 2
    two = run.train(request_for(tmp_path / "two"))
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-3)


@pytest.mark.slow
def test_float16_learns_under_a_strategy(request_for, tmp_path):
    metrics = run.train(request_for(tmp_path, strategy="mirrored", precision="mixed_float16"))
    assert metrics["auc"] > 0.9


def test_finished_run_is_only_reported(undisturbed, capsys):
    (undisturbed.workdir / "report.html").unlink()
    before = history(undisturbed.workdir)
    assert run.train(undisturbed) == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert "finished, at step 38" in capsys.readouterr().out
    assert (undisturbed.workdir / "report.html").exists()
    assert history(undisturbed.workdir) == before


def test_of_a_finished_run_the_chief_alone_writes_the_report(undisturbed, request_for, tmp_path, monkeypatch):
    workdir = shutil.copytree(undisturbed.workdir, tmp_path / "run")
    (workdir / "report.html").unlink()
    monkeypatch.setattr(run.strategy, "worker", lambda strategy: 1)  # several at once broke each other's
    metrics = run.train(request_for(workdir, precision="mixed_bfloat16"))
    assert metrics == workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert not (workdir / "report.html").exists()


@pytest.mark.slow
def test_finished_run_can_be_made_longer(request_for, tmp_path, config):
    for steps in (4, 6):
        config.train.steps = steps
        run.train(request_for(tmp_path))
    assert [line["step"] for line in history(tmp_path)] == [4, 6]


@pytest.mark.slow
def test_early_stop_ends_the_run_for_good(request_for, tmp_path, config):
    config.optimizer.learning_rate = 0.0
    config.callbacks = (
        {"class_name": "EarlyStopping", "config": {"monitor": "val_loss", "patience": 1}},
        {"class_name": "CSVLogger", "config": {"filename": "{workdir}/epochs.csv"}},
    )
    run.train(request_for(tmp_path))
    record = workdir_lib.read_json(tmp_path / "run.json")
    assert (record["steps"], record["finished"]) == (25, True)  # the end of the second epoch
    assert len((tmp_path / "epochs.csv").read_text().splitlines()) == 1 + 2


@pytest.mark.slow
def test_a_csv_of_epochs_has_the_numbers_of_every_validation(request_for, tmp_path, config):
    config.train.epochs, config.evaluation.every_epochs = 2.0, 2
    config.callbacks = ({"class_name": "CSVLogger", "config": {"filename": "{workdir}/epochs.csv"}},)
    run.train(request_for(tmp_path))
    first, second = csv.DictReader((tmp_path / "epochs.csv").read_text().splitlines())
    (told,) = (line["validation"] for line in history(tmp_path) if "validation" in line)
    for name in ("auc", "accuracy", "loss"):
        assert (first[f"val_{name}"], float(second[f"val_{name}"])) == ("NA", told[name])


@pytest.mark.slow
def test_loss_that_is_not_finite_stops_the_run_before_it_is_saved(request_for, tmp_path, config):
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 1e30
    with pytest.raises(
        InputError, match=r"step \d+: received a loss .*no record is at fault.*; .*learning_rate"
    ):
        run.train(request_for(tmp_path))
    assert not (tmp_path / "checkpoints").exists()


def test_workdir_of_another_model_is_refused(undisturbed, request_for, config):
    config.model.hidden = (4,)
    with pytest.raises(InputError, match=r"--config.model: received .*expected .*empty --workdir"):
        run.train(request_for(undisturbed.workdir, precision="mixed_bfloat16"))


def test_restored_model_predicts_what_was_trained(undisturbed, dataset):
    restored = restore.restore_model(undisturbed.workdir)
    (batch,) = evaluation_batches(select(dataset, "test"), restored.preprocess, share=Share(global_batch=70))
    inputs, labels, mask = batch
    logits = tf.function(restored.model)({name: inputs[name] for name in ("numeric", "categories")})
    assert logits.dtype == tf.float32
    metrics = EvaluationMetrics(dataset.schema.label)
    metrics.update(labels.numpy(), tf.nn.sigmoid(tf.concat([-logits, logits], axis=1)).numpy(), mask.numpy())
    trained = workdir_lib.read_json(undisturbed.workdir / "evaluation.json")
    assert metrics.result()["auc"] == pytest.approx(trained["auc"], abs=1e-3)
    assert restored.step == 38


def test_a_run_keeps_averages_and_what_is_trained(undisturbed):
    averaged = restore.restore_model(undisturbed.workdir).model.get_weights()
    trained = restore.restore_model(undisturbed.workdir, averaged=False).model.get_weights()
    assert any(np.any(a != b) for a, b in zip(averaged, trained, strict=True))


@pytest.mark.parametrize("parts", [0, 3, 32])
def test_micro_batches_divide_the_examples_of_a_replica(request_for, tmp_path, config, parts):
    config.train.micro_batches = parts
    expected = r"micro_batches: received \d+; expected a number that divides the 16 examples"
    with pytest.raises(InputError, match=expected):
        run.train(request_for(tmp_path))


def test_a_checkpoint_that_is_not_there_is_refused(undisturbed):
    with pytest.raises(InputError, match=r"--checkpoint=7: received checkpoints of the steps .*38 in "):
        restore.restore_model(undisturbed.workdir, checkpoint="7")


def test_restoring_without_a_run_says_so(tmp_path):
    with pytest.raises(InputError, match=r"without run.json; .*pipeline.train"):
        restore.restore_model(tmp_path)


@pytest.mark.slow
def test_the_ledger_tells_of_a_kill(request_for, train_and_kill, tmp_path):
    began = time.monotonic()
    train_and_kill(request_for(tmp_path), 15)
    run.train(request_for(tmp_path))
    elapsed = time.monotonic() - began
    spent = time_spent(goodput.read_goodput(tmp_path / "ledger.jsonl"))
    assert [(one.from_step, one.step) for one in spent.processes] == [(0, 16), (13, 38)]
    needed = {"start", "restart", "compile", "productive", "input", "evaluation", "checkpoint", "report"}
    assert {kind for kind, seconds in spent.seconds.items() if seconds} == needed | {"lost", "callbacks"}
    assert 0 < spent.longest_save_s < spent.seconds["checkpoint"]
    assert spent.wall_s + spent.away_s == pytest.approx(elapsed, rel=0.01)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mixup", 0.2, "unless one image is the only input"),
        ("shift", 5.0, "augmentation 'shift': received 5.0"),
    ],
)
def test_what_cannot_be_done_to_the_data_is_refused_before_the_run_is_bound_to_it(
    request_for, tmp_path, config, name, value, message
):
    config.augmentation[name] = value
    with pytest.raises(InputError, match=message):
        run.train(request_for(tmp_path))
    assert not (tmp_path / "run.json").exists()

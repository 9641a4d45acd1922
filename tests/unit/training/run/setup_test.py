"""A request is resolved, or refused, before anything is built."""

import dataclasses
import json
import math
import subprocess

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.run import request, setup
from pipeline.training.run.weights import require_weights
from pipeline.training.state import run_record
from tests.shared.parsed import parsed
from tests.shared.small_run import SCHEMA, rows
from tests.shared.tiny_dataset import write_dataset


def test_resolves_what_is_asked(request_for, tmp_path):
    decided = setup.decide(request_for(tmp_path, strategy="mirrored"))
    assert decided.cadence.total_steps == 38  # 3 epochs of 200 examples, 16 a step
    assert (decided.validation_split, decided.final_split) == ("validation", "test")
    assert decided.announcement[0].endswith("train 200, validation 50, test 70")
    assert "mirrored, replicas: 2, global batch 16, of which a replica has 8" in decided.announcement[1]
    assert "float32: asked for" in decided.announcement[2]
    assert "off: not asked for" in decided.announcement[3]


def test_steps_come_before_epochs(request_for, tmp_path, config):
    config.train.steps = 7
    assert setup.decide(request_for(tmp_path)).cadence.total_steps == 7


@pytest.mark.parametrize(
    ("batch", "told"), [(200, []), (800, ["800 holds each of the 200 examples 4.0 times"])]
)
def test_a_batch_of_more_than_an_epoch_is_told_of(request_for, tmp_path, config, batch, told):
    config.global_batch = batch
    lines = setup.decide(request_for(tmp_path)).announcement
    repeated = [line for line in lines if line.startswith("warning    a global batch of ")]
    assert len(repeated) == len(told) and all(
        words in line for words, line in zip(told, repeated, strict=True)
    )


def test_a_part_of_a_split_is_validated_on(request_for, tmp_path, config):
    config.evaluation.split = "train[90%:]"
    decided = setup.decide(request_for(tmp_path))
    assert decided.selections[decided.validation_split].rows == 20


@pytest.mark.parametrize("split", ["", "validation"])
def test_no_validation_split_means_no_validation(request_for, tmp_path, config, split):
    config.evaluation.split = split
    without = write_dataset(tmp_path / "data", SCHEMA, {"train": rows(20, seed=0)})
    decided = setup.decide(dataclasses.replace(request_for(tmp_path), dataset=without))
    assert (decided.validation_split, decided.final_split) == ("", "train")
    assert "validation none: the dataset has no such split" in decided.announcement


def test_a_dataset_without_a_train_split_is_refused(request_for, tmp_path, config):
    config.train.split = config.evaluation.final_split = "all"
    other = write_dataset(tmp_path / "data", SCHEMA, {"all": rows(20, seed=0)})
    with pytest.raises(InputError, match=r"received the splits all; expected one named 'train': its stat"):
        setup.decide(dataclasses.replace(request_for(tmp_path), dataset=other))


def test_an_empty_test_split_is_told_before_training(request_for, tmp_path, config):
    splits = {"train": rows(20, seed=0), "validation": rows(4, seed=1)}
    filled = write_dataset(tmp_path / "data", SCHEMA, splits)
    manifest = dataclasses.replace(filled.manifest, splits={**filled.manifest.splits, "test": ()})
    dataset = dataclasses.replace(filled, manifest=manifest)
    with pytest.raises(InputError, match=r"split 'test' of .*: received 0 rows; .*final_split=validation"):
        setup.decide(dataclasses.replace(request_for(tmp_path), dataset=dataset))
    config.evaluation.final_split = "validation"
    decided = setup.decide(dataclasses.replace(request_for(tmp_path), dataset=dataset))
    assert decided.final_split == "validation"


def test_an_objective_of_its_own_is_told(request_for, tmp_path, config):
    config.train.label_smoothing, config.train.class_weights = 0.1, (1.0, 2.5)
    decided = setup.decide(request_for(tmp_path))
    assert "loss       labels smoothed by 0.1; class weights no 1, yes 2.5; evaluations have neither" in (
        decided.announcement
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("global_batch", 15, r"--config.global_batch: received 15; .*multiple of the 2 replicas"),
        ("evaluation.global_batch", 0, r"--config.evaluation.global_batch: received 0; expected a positive"),
        ("train.epochs", 0.0, r"--config.train.epochs: received 0.0; expected a positive number"),
        ("train.epochs", float("nan"), r"--config.train.epochs: received nan; expected a positive number"),
        ("train.epochs", float("inf"), r"--config.train.epochs: received inf"),
        ("train.steps_per_loop", 0, r"--config.train.steps_per_loop: received 0"),
        ("train.log_every_steps", -1, r"--config.train.log_every_steps: received -1"),
        ("train.label_smoothing", 1.0, r"--config.train.label_smoothing: received 1.0; expected a part"),
        ("evaluation.split", "holdout", r"split 'holdout'; expected one of train, validation, test"),
        ("evaluation.final_split", "holdout", r"split 'holdout'; expected one of train, validation, test"),
    ],
)
def test_what_cannot_work_is_refused(request_for, tmp_path, config, path, value, message):
    config.update_from_flattened_dict({path: value})
    with pytest.raises(InputError, match=message):
        setup.decide(request_for(tmp_path, strategy="mirrored"))


def test_a_changed_list_of_damaged_records_is_named_before_it_is_read(request_for, tmp_path):
    now = request.describe(
        request_for(tmp_path),
        strategy_lib.create("mirrored"),
        Precision(policy="float32", reason="asked for"),
        jit_compile=False,
        total_steps=38,
        damaged_records=1,
    )
    workdir = request_for(tmp_path).workdir
    path = workdir / "damaged.json"
    path.write_text('{"rows": 1, "records": []}')
    run_record.write(workdir / "run.json", dataclasses.replace(now, files=run_record.digests(workdir)))
    path.write_text('{"rows": 1, "records": [{"file": "a"}]}')
    with pytest.raises(InputError, match=r"damaged\.json: received SHA-256"):
        setup.decide(request_for(tmp_path))


# The record of a request says what is run on what.


def test_names_what_is_run_on_what(request_for, dataset, tmp_path):
    described = request.describe(
        request_for(tmp_path),
        strategy_lib.create("mirrored"),
        Precision(policy="float32", reason="asked for"),
        jit_compile=False,
        total_steps=38,
        damaged_records=2,
    )
    assert described.dataset_digest == dataset.manifest.digest
    assert described.strategy == "mirrored"
    assert described.replicas == len(described.devices) == 2
    assert described.config["model"]["hidden"] == [8]
    assert described.versions["keras"].startswith("3.")
    assert described.machine["cores"] >= 1
    assert (described.total_steps, described.damaged_records, described.finished) == (38, 2, False)


def test_functions_in_a_config_do_not_break_the_record(config):
    config.callbacks = ({"class_name": "LambdaCallback", "config": {"on_epoch_end": print}},)
    (callback,) = parsed(config).given["callbacks"]
    assert callback["config"]["on_epoch_end"] == repr(print)
    assert json.dumps(callback)


def test_a_config_is_recorded_as_json_has_it(config):
    assert config.model.hidden == (8,)
    assert parsed(config).given["model"]["hidden"] == [8]


def test_a_package_that_is_not_installed_has_no_version():
    found = request.versions(("keras", "no-such-package"))
    assert found["keras"].startswith("3.")
    assert "no-such-package" not in found


def test_the_source_of_a_run_is_named_by_its_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert request.source_commit(tmp_path) == ""
    (tmp_path / "code.py").write_text("1")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=one")):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    (head,) = (tmp_path / ".git/refs/heads").iterdir()
    assert request.source_commit(tmp_path) == f", commit {head.read_text().strip()}"
    (tmp_path / "code.py").write_text("2")
    assert request.source_commit(tmp_path).endswith("-dirty")


# A record whose weight is none is named before training.

WEIGHTS = Numeric(name="w", missing="mark")
WEIGHTED = Schema(
    name="weighted", features=(Numeric(name="x"), WEIGHTS, Label(name="y", classes=("no", "yes")))
)


def written(folder, *weights: float, layout: str = "rows"):
    examples = [{"x": float(at), "w": weight, "y": 0} for at, weight in enumerate(weights)]
    return write_dataset(folder / "1.0.0", WEIGHTED, {"train": examples}, layout=layout)


@pytest.mark.parametrize(
    ("layout", "place", "weight"), [("rows", "record 1", -0.5), ("blocks", "record 0, row 1", math.nan)]
)
def test_the_first_one_is_named(tmp_path, layout, place, weight):
    dataset = written(tmp_path, 1.0, 0.0, 2.0, 1.0, weight, -3.0, layout=layout)
    message = (
        rf"--config.train.example_weights='w': received {weight:g} in "
        rf"weighted-train.tfrecord-00001-of-00002, {place} of .*1.0.0; expected a finite number from 0 on"
    )
    with pytest.raises(InputError, match=message):
        require_weights([select(dataset, "train")], WEIGHTS)


def test_what_is_not_read_may_be_anything(tmp_path):
    dataset = written(tmp_path, 1.0, 0.0, 2.0, 1.0, 1.0, -3.0)
    require_weights([select(dataset, "train[:5]")], WEIGHTS)
    require_weights([select(dataset, "train")], None)
    with pytest.raises(InputError, match="record 2 of"):
        require_weights([select(dataset, "train[4:]")], WEIGHTS)


def test_all_that_is_read_is_looked_at(tmp_path):
    sound, other = written(tmp_path / "a", 1.0, 2.0), written(tmp_path / "b", 1.0, -2.0)
    with pytest.raises(InputError, match=r"received -2 in .* of .*/b/1.0.0"):
        require_weights([select(sound, "train"), select(other, "train")], WEIGHTS)

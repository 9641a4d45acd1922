"""A request is resolved, or refused, before anything is built."""

import dataclasses

import pytest

from pipeline.base.errors import InputError
from pipeline.training.run import setup
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

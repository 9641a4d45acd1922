"""A step of a run is replayed from its working directory; what cannot be is told in a line."""

import dataclasses
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.experiment.restore import restore_model
from pipeline.training.replay import evaluator
from pipeline.training.replay.evaluator import Weights
from pipeline.training.replay.replay import Replay
from pipeline.training.state import checkpoints
from tests.shared.recorded import Ledger, global_batch
from tests.shared.small_run import SCHEMA, rows
from tests.shared.tiny_dataset import write_dataset
from tests.unit.training.replay.changed import change

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def replay(killed_mixture: tuple[pathlib.Path, Ledger]) -> Replay:
    return Replay(killed_mixture[0])


def test_a_step_is_judged_by_the_nearest_checkpoint_the_worst_example_first(replay, killed_mixture):
    workdir, ledger = killed_mixture
    step = replay.step(56, examples=5)
    newest = max(
        entry.step for entry in checkpoints.newest_first(replay.workdir.checkpoints) if entry.step <= 56
    )
    assert (step.step, step.first_position, step.weights.step) == (56, 56 * 16, newest)
    inputs, labels = global_batch(ledger[56])
    restored = restore_model(workdir, up_to=56, averaged=False)
    logit = restored.model(inputs, training=False).numpy()[:, 0].astype(np.float64)
    expected = np.logaddexp(0.0, np.where(labels == 1, -logit, logit))  # binary cross-entropy, in nats
    np.testing.assert_allclose(step.losses, expected, atol=1e-6)
    assert [example.index for example in step.examples] == np.argsort(-expected)[:5].tolist()
    assert [example.loss for example in step.examples] == sorted(step.losses.tolist(), reverse=True)[:5]


def test_a_checkpoint_can_be_asked_for(killed_mixture):
    initial = Replay(killed_mixture[0], checkpoint=0).step(3, examples=1)
    assert (initial.weights.step, len(initial.losses)) == (0, 16)


def test_a_checkpoint_that_the_run_deletes_meanwhile_gives_way(copy, monkeypatch):
    change(copy, dataset=str(copy.parent / "main"))
    chosen = []
    nearest_checkpoint = evaluator.nearest_checkpoint

    def nearest(root: pathlib.Path, step: int, **rest) -> Weights:
        chosen.append(nearest_checkpoint(root, step, **rest))
        if len(chosen) == 1:
            shutil.rmtree(checkpoints.path_of(root, chosen[0].step))
        return chosen[-1]

    monkeypatch.setattr(evaluator, "nearest_checkpoint", nearest)
    step = Replay(copy).step(56, examples=1)
    assert step.weights.step == chosen[1].step < chosen[0].step
    assert not step.weights.damaged


def test_a_run_without_a_jump_says_so(replay):
    assert replay.spikes(examples=3).found == ()


@pytest.mark.parametrize("step", [57, 100])
def test_a_step_that_the_run_does_not_have_is_refused(replay, step: int):
    with pytest.raises(InputError, match="expected 0 to 56"):
        replay.step(step, examples=1)


@pytest.fixture
def copy(killed_mixture, tmp_path) -> pathlib.Path:
    """A copy of the run, and of its datasets, which may be changed."""
    workdir = killed_mixture[0]
    for name in ("main", "other"):
        shutil.copytree(workdir.parent / name, tmp_path / name)
    return shutil.copytree(workdir, tmp_path / "run")


def test_datasets_that_were_moved_can_be_named(copy, replay):
    """The mixture's too; the digest tells which is which."""
    config = replay.record.config | {"mixture": [["gone", "validation", 0.5]]}
    change(copy, dataset="/nowhere/at/all", config=config)
    main, other = copy.parent / "main", copy.parent / "other"
    for moved_to in ([], [main], [other]):
        with pytest.raises(InputError, match=r"received no such directory.*--dataset=DIRECTORY"):
            Replay(copy, moved_to=moved_to)
    again, first = (each.stream.batch(9) for each in (Replay(copy, moved_to=[other, main]), replay))
    tf.nest.map_structure(np.testing.assert_array_equal, again, first)


@pytest.mark.parametrize("changed", [{"dataset_digest": "0" * 64}, {"mixture_digests": ["0" * 64]}])
def test_another_dataset_is_refused(copy, changed):
    change(copy, **changed)
    with pytest.raises(
        InputError, match="expected 000000000000…, that of the dataset that the run trained on"
    ):
        Replay(copy)


def test_a_dataset_that_the_run_never_saw_is_refused(copy, killed_mixture, tmp_path):
    rest = write_dataset(tmp_path / "rest", SCHEMA, {"train": rows(20, seed=7)})
    with pytest.raises(InputError, match=r"rest: received digest .*; expected .*… or .*…, that of the"):
        Replay(copy, moved_to=[rest.directory])


def test_a_run_of_another_update_of_weights_can_be_replayed(copy, replay):
    """What a step received does not depend on how weights are updated."""
    (checkpoints := copy / "checkpoints").rename(copy / "elsewhere")
    change(copy, update=2)
    assert not checkpoints.exists()
    again = Replay(copy).step(9, examples=1)
    assert "as the run keeps no checkpoint" in again.weights.seen_from(9)
    records = [example.record for example in replay.step(9, examples=16).examples]
    assert dataclasses.replace(again.examples[0].record, dataset=records[0].dataset) in [
        dataclasses.replace(record, dataset=records[0].dataset) for record in records
    ]


def test_another_order_is_refused(copy):
    change(copy, order=2)
    with pytest.raises(
        InputError, match=r"received version 2; expected version 1, .*run.json names its version"
    ):
        Replay(copy)


def test_images_that_were_augmented_otherwise_are_refused(copy, replay):
    config = replay.record.config
    change(copy, config=config | {"augmentation": {**config["augmentation"], "flip": True}})
    with pytest.raises(InputError, match=r"augmentation of images: received version 0; expected version 1"):
        Replay(copy)


def test_a_damaged_record_of_a_step_is_named(copy):
    change(copy, dataset=str(copy.parent / "main"))
    for shard in (copy.parent / "main").glob("*-train.tfrecord-*"):
        shard.write_bytes(shard.read_bytes().replace(b"kind", b"kinD"))
    with pytest.raises(InputError, match=r"damaged record.* checksum of its .* bytes is wrong"):
        Replay(copy).step(9, examples=1)

"""A step of a run is replayed from its working directory; what cannot be is told in a line."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from pipeline.data import self_digest
from pipeline.data.errors import InputError
from pipeline.training.replay import Replay
from pipeline.training.restore import restore_model
from pipeline.training.state.checkpoints import directory
from tests.pipeline.training.replaying.recorded import Ledger, global_batch


@pytest.fixture(scope="module")
def replay(killed_mixture: tuple[pathlib.Path, Ledger]) -> Replay:
    return Replay(killed_mixture[0])


def test_a_step_is_judged_by_the_nearest_checkpoint_the_worst_example_first(replay, killed_mixture):
    workdir, ledger = killed_mixture
    step = replay.step(56, examples=5)
    newest = max(
        entry.step for entry in directory.newest_first(replay.workdir.checkpoints) if entry.step <= 56
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


def test_a_run_without_a_jump_says_so(replay):
    assert replay.spikes(examples=3).found == ()


@pytest.mark.parametrize("step", [57, 100])
def test_a_step_that_the_run_does_not_have_is_refused(replay, step: int):
    with pytest.raises(InputError, match="expected 0 to 56"):
        replay.step(step, examples=1)


@pytest.fixture
def copy(killed_mixture, tmp_path) -> pathlib.Path:
    """A copy of the run, and of its dataset, which may be changed."""
    workdir = killed_mixture[0]
    shutil.copytree(workdir.parent / "main", tmp_path / "moved")
    return shutil.copytree(workdir, tmp_path / "run")


def test_a_dataset_that_was_moved_can_be_named(copy, replay):
    change(copy, dataset="/nowhere/at/all")
    with pytest.raises(InputError, match=r"received no such directory.*--dataset=DIRECTORY"):
        Replay(copy)
    again = Replay(copy, dataset=copy.parent / "moved")
    np.testing.assert_array_equal(again.step(9, examples=1).losses, replay.step(9, examples=1).losses)


def test_another_dataset_is_refused(copy):
    change(copy, dataset_digest="0" * 64)
    with pytest.raises(
        InputError, match="expected 000000000000…, that of the dataset that the run trained on"
    ):
        Replay(copy)


def test_another_order_is_refused(copy):
    change(copy, order=1)
    with pytest.raises(
        InputError, match=r"received a run in version 1 of the order.*run.json names its version"
    ):
        Replay(copy)


def test_a_damaged_record_that_is_shown_is_named(copy):
    change(copy, dataset=str(copy.parent / "moved"))
    for shard in (copy.parent / "moved").glob("*-train.tfrecord-*"):
        shard.write_bytes(shard.read_bytes().replace(b"kind", b"kinD"))
    with pytest.raises(InputError, match=r"damaged record.* checksum of its .* bytes is wrong"):
        Replay(copy).step(9, examples=16)


def change(workdir: pathlib.Path, **values: object) -> None:
    """Changes values of run.json as if the run had written them."""
    path = workdir / "run.json"
    document = json.loads(path.read_bytes())
    document.pop(self_digest.KEY)
    path.write_text(json.dumps(self_digest.with_digest(document | values)))

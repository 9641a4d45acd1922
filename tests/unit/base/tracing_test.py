"""AutoGraph rewrites functions in files of their own, which a killed process leaves behind: none of ours."""

import pathlib
from collections.abc import Iterator

import pytest
import tensorflow as tf

from pipeline.data.dataset.manifest import open_dataset
from pipeline.exporting import export, scoring
from pipeline.feed import measure
from pipeline.training.experiment import restore
from pipeline.training.run import run
from pipeline.training.run.request import Request
from tests.shared.parsed import parsed
from tests.shared.replayed_here import replay_here
from tests.shared.rewritten import recording
from tests.shared.small_run import small_config, write_small_dataset


@pytest.fixture
def rewritten() -> Iterator[list[pathlib.Path]]:
    with recording() as asked:
        yield asked


@pytest.mark.slow  # tests/unit/data/input/batches_test.py looks at what training and evaluation read
def test_training_evaluation_and_export_rewrite_nothing(tmp_path, monkeypatch, rewritten):
    replay_here(monkeypatch)
    config = small_config()
    config.train.steps = 2
    dataset = write_small_dataset(tmp_path / "1.0.0")
    run.train(
        Request(
            experiment=parsed(config),
            dataset=dataset,
            workdir=tmp_path / "run",
            strategy="one_device",
            precision="float32",
        )
    )
    assert rewritten == []
    export.export_model(export.trained(restore.restore_model(tmp_path / "run")), tmp_path / "model")
    scoring.score(tmp_path / "model", open_dataset(dataset.directory), split="test", batch=32)
    # One of TensorFlow's own, in a folder that goes with the rest of what an export leaves.
    assert set(rewritten) == {tmp_path / ".model.staging" / "scratch"}
    assert not (tmp_path / "model" / "scratch").exists()


def test_measuring_a_dataset_rewrites_nothing(rewritten):
    numbers = tf.data.Dataset.zip((tf.data.Dataset.range(9),)).repeat()
    measure.measure_speed(numbers, examples=1, seconds=0.01)
    measure.first_elements(numbers, 2)
    assert rewritten == []

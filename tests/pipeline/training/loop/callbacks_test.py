"""Keras callbacks from a config, and their state across a restart."""

import keras
import pytest

from pipeline.data.errors import InputError
from pipeline.training.loop import callbacks


def early_stopping() -> keras.callbacks.EarlyStopping:
    (made,) = callbacks.build(
        [{"class_name": "EarlyStopping", "config": {"monitor": "val_loss", "patience": 3}}], workdir="runs/x"
    )
    made.set_model(keras.Sequential())
    made.on_train_begin()
    return made


def test_builds_what_is_named(tmp_path):
    specs = [{"class_name": "CSVLogger", "config": {"filename": "{workdir}/log.csv"}}]
    (made,) = callbacks.build(specs, workdir=tmp_path)
    assert isinstance(made, keras.callbacks.CSVLogger)
    assert made.filename == str(tmp_path / "log.csv")


def test_patience_goes_on_where_it_was():
    before = early_stopping()
    for epoch, loss in enumerate([1.0, 2.0, 3.0]):
        before.on_epoch_end(epoch, {"val_loss": loss})
    after = early_stopping()
    callbacks.restore([after], callbacks.state([before]))
    assert (after.wait, after.best, after.best_epoch) == (2, 1.0, 0)


def test_state_of_other_callbacks_is_left_alone():
    after = early_stopping()
    callbacks.restore([after], [{"class_name": "CSVLogger", "numbers": {"cooldown": 5}}])
    assert not hasattr(after, "cooldown")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"class_name": "Dense"}, "received Dense; expected a class of keras.callbacks"),
        ({}, "received ; expected a class of keras.callbacks"),
        ({"class_name": "EarlyStopping", "config": {"patiance": 3}}, "patiance"),
        ({"class_name": "BackupAndRestore"}, "continues from its own checkpoints"),
        ({"class_name": "TensorBoard"}, "Summaries are written"),
    ],
)
def test_what_cannot_work_is_refused(spec, message):
    with pytest.raises(InputError, match=message):
        callbacks.build([spec], workdir="runs/x")

"""Keras callbacks from a config, and their state across a restart."""

import keras
import numpy as np

from pipeline.training.loop import callbacks


def early_stopping(**arguments) -> keras.callbacks.EarlyStopping:
    spec = {"class_name": "EarlyStopping", "config": {"monitor": "val_loss", "patience": 3, **arguments}}
    (made,) = callbacks.build([spec], workdir=None)
    made.set_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    made.on_train_begin()
    return made


def after_losses(*losses: float, **arguments) -> keras.callbacks.EarlyStopping:
    one = early_stopping(**arguments)
    for epoch, loss in enumerate(losses):
        one.on_epoch_end(epoch, {"val_loss": loss})
    return one


def test_builds_what_is_named(tmp_path):
    specs = [
        {"class_name": "CSVLogger", "config": {"filename": "{workdir}/log.csv"}},
        {"class_name": "TerminateOnNaN"},
    ]
    logger, terminate = callbacks.build(specs, workdir=tmp_path)
    assert logger.filename == str(tmp_path / "log.csv")
    assert isinstance(terminate, keras.callbacks.TerminateOnNaN)


def test_only_the_chief_writes_and_prints():
    specs = [
        {"class_name": "CSVLogger", "config": {"filename": "{workdir}/log.csv"}},
        {"class_name": "EarlyStopping", "config": {"verbose": 1}},
    ]
    logger, stopping = callbacks.build(specs, workdir=None)
    assert (logger.filename, stopping.verbose) == ("/dev/null", 0)
    logger.on_train_begin()
    logger.on_epoch_end(0, {"loss": 1.0})
    callbacks.restore(
        [logger], [{"class_name": "CSVLogger", "kept": {"keys": ["loss"], "text": "epoch,loss"}}]
    )
    logger.on_epoch_end(1, {"loss": 1.0})


def test_patience_goes_on_where_it_was():
    before, after = after_losses(1.0, 2.0, 3.0), early_stopping()
    callbacks.restore([after], callbacks.state([before]))
    assert (after.wait, after.best, after.best_epoch) == (2, 1.0, 0)


def test_the_smallest_change_that_counts_is_the_same_after_a_restart():
    undisturbed = after_losses(1.0, 0.95, 0.92, min_delta=0.1)
    resumed = early_stopping(min_delta=0.1)
    callbacks.restore([resumed], callbacks.state([after_losses(1.0, min_delta=0.1)]))
    for epoch, loss in enumerate([0.95, 0.92], 1):
        resumed.on_epoch_end(epoch, {"val_loss": loss})
    assert (resumed.best, resumed.wait) == (undisturbed.best, undisturbed.wait) == (1.0, 2)


def test_the_best_weights_survive():
    before, after = early_stopping(restore_best_weights=True), early_stopping(restore_best_weights=True)
    best = before.model.get_weights()
    before.on_epoch_end(0, {"val_loss": 1.0})
    before.model.set_weights([weight + 1 for weight in best])
    before.on_epoch_end(1, {"val_loss": 2.0})
    callbacks.restore([after], callbacks.state([before]))
    after.on_train_end()
    for restored, weight in zip(after.model.get_weights(), best, strict=True):
        np.testing.assert_array_equal(restored, weight)


def test_state_of_other_callbacks_is_left_alone():
    after = early_stopping()
    callbacks.restore([after], [{"class_name": "CSVLogger", "kept": {"keys": None, "text": ""}}])
    assert not hasattr(after, "text")

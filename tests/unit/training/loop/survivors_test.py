"""Each callback of the table over a kill and a restart: all its numbers are those of the undisturbed run.

The model, its step and its checkpoints are real; the process dies by an exception inside the inner loop.
"""

import dataclasses
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.loop import callbacks
from pipeline.training.loop.callbacks import SURVIVORS
from pipeline.training.loop.clock import Cadence, Tally
from pipeline.training.loop.outer import InnerLoop, Session
from pipeline.training.tasks.classification import Regression

CASES = {
    "EarlyStopping": {"restore_best_weights": True, "patience": 3, "min_delta": 0.01},
    "ReduceLROnPlateau": {"factor": 0.5, "patience": 1, "cooldown": 1, "min_delta": 0.3},
    "CSVLogger": {"filename": "{workdir}/epochs.csv", "separator": ";"},
    "TerminateOnNaN": {},
}
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(240, 3)).astype("float32")
Y = (X.sum(axis=1) + DRAW.normal(size=240)).astype("float32")
BATCH = 4  # 6 steps an epoch
CADENCE = Cadence(
    records=24,
    global_batch=BATCH,
    total_steps=60,
    steps_per_loop=4,
    log_every_steps=5,
    checkpoint_every_steps=9,
)


class KilledError(Exception):
    """In place of kill -9."""


@dataclasses.dataclass(kw_only=True)
class Outcome:
    state: list[dict]
    weights: list[np.ndarray]
    learning_rate: float
    step: int
    csv: bytes


def model_under(strategy: tf.distribute.Strategy) -> keras.Model:
    with strategy.scope():
        inputs = keras.Input((3,))
        model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
        model.optimizer = keras.optimizers.SGD(0.2)  # so large that the loss goes up and down
        model.optimizer.build(model.trainable_variables)
    return model


def loop_from(
    step: int, model: keras.Model, strategy: tf.distribute.Strategy, *, dies_after: int
) -> InnerLoop:
    def batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        examples = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().skip(step * BATCH)
        return examples.batch(context.get_per_replica_batch_size(BATCH), drop_remainder=True)

    one_step = train_step(model, model.optimizer, task=Regression(), global_batch=BATCH)
    loop = inner_loop(strategy, one_step, iter(strategy.distribute_datasets_from_function(batches)))
    done = step

    def mortal(steps: int) -> Tally:
        nonlocal done
        done += steps
        if done > dies_after:
            raise KilledError
        return loop(steps)

    return mortal


def validation_loss(model: keras.Model) -> dict:
    x, y = X[::-1][:8] + 1, Y[:8]
    kernel, bias = (np.asarray(weight, np.float64) for weight in model.weights)
    return {"loss": float(np.mean((x @ kernel[:, 0] + bias - y) ** 2))}


def run(
    workdir: pathlib.Path, name: str, strategy: tf.distribute.Strategy, *, dies_after: int = 99
) -> Outcome:
    """Goes on in `workdir`, as a new process does."""
    model = model_under(strategy)
    made = callbacks.build([{"class_name": name, "config": CASES[name]}], workdir=workdir)
    checkpoints = Checkpoints(
        workdir / "checkpoints",
        model=model,
        optimizer=model.optimizer,
        golden_logits=lambda: np.asarray(model.weights[0], np.float32),
    )
    session = Session(
        model,
        cadence=CADENCE,
        checkpoints=checkpoints,
        callbacks=made,
        evaluate=lambda epoch: validation_loss(model),
        has_accuracy=False,
    )
    step = session.restore()
    try:
        step = session.run(loop_from(step, model, strategy, dies_after=dies_after), report=lambda point: None)
    finally:
        checkpoints.close()
    csv = workdir / "epochs.csv"
    return Outcome(
        state=callbacks.state(made),
        weights=model.get_weights(),
        learning_rate=float(np.asarray(model.optimizer.learning_rate)),
        step=step,
        csv=csv.read_bytes() if csv.exists() else b"",
    )


# Nothing is saved yet; between two checkpoints; past the end of an epoch; and late, each after the other.
DEATHS = (3, 8, 13, 23)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, Outcome]:
    strategy = strategy_lib.create("one_device")
    return {name: run(tmp_path_factory.mktemp("undisturbed"), name, strategy) for name in CASES}


def test_every_callback_of_the_table_is_tested():
    assert set(CASES) == set(SURVIVORS)


@pytest.mark.parametrize("name", CASES)
def test_goes_on_after_kills_as_if_there_had_been_none(name, undisturbed, tmp_path):
    strategy = strategy_lib.create("one_device")
    for step in DEATHS:
        with pytest.raises(KilledError):
            run(tmp_path, name, strategy, dies_after=step)
    resumed, whole = run(tmp_path, name, strategy), undisturbed[name]
    np.testing.assert_equal(vars(resumed), vars(whole))


def test_the_callbacks_had_something_to_do(undisturbed):
    stopped = undisturbed["EarlyStopping"]
    assert 24 < stopped.step < CADENCE.total_steps
    assert stopped.state[0]["kept"]["best_epoch"] < stopped.step // 6 - 1
    assert 0 < undisturbed["ReduceLROnPlateau"].learning_rate < 0.2
    lines = undisturbed["CSVLogger"].csv.decode().splitlines()
    assert lines[0] == "epoch;loss;val_loss"
    assert [line.partition(";")[0] for line in lines[1:]] == [str(epoch) for epoch in range(10)]


@pytest.mark.slow
def test_a_learning_rate_that_was_reduced_reaches_every_replica_after_a_restart(undisturbed, tmp_path):
    strategy = strategy_lib.create("mirrored")
    with pytest.raises(KilledError):
        run(tmp_path, "ReduceLROnPlateau", strategy, dies_after=23)
    model = model_under(strategy)
    before = Checkpoints(
        tmp_path / "checkpoints",
        model=model,
        optimizer=model.optimizer,
        golden_logits=lambda: np.asarray(model.weights[0], np.float32),
    )
    before.restore()
    copies = strategy.experimental_local_results(model.optimizer.learning_rate)
    assert len({float(np.asarray(copy)) for copy in copies}) == 1
    resumed = run(tmp_path, "ReduceLROnPlateau", strategy)
    assert resumed.learning_rate == undisturbed["ReduceLROnPlateau"].learning_rate
    np.testing.assert_allclose(resumed.weights[0], undisturbed["ReduceLROnPlateau"].weights[0], rtol=1e-5)


def test_a_file_that_was_deleted_or_changed_is_whole_again(undisturbed, tmp_path):
    strategy = strategy_lib.create("one_device")
    with pytest.raises(KilledError):
        run(tmp_path, "CSVLogger", strategy, dies_after=23)
    (tmp_path / "epochs.csv").write_text("epoch;loss")
    assert run(tmp_path, "CSVLogger", strategy).csv == undisturbed["CSVLogger"].csv

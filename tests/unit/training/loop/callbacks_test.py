"""Keras callbacks from a config, and their state across a restart."""

import dataclasses
import inspect
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.loop import callback_checks, callbacks
from pipeline.training.loop.callbacks import REFUSED, SURVIVORS
from pipeline.training.loop.clock import Cadence, Tally
from pipeline.training.loop.outer import InnerLoop, Session
from pipeline.training.tasks.classification import Regression
from tests.shared.matrix import quick_cases


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


def test_a_run_that_stopped_early_says_when_and_why():
    one = after_losses(0.5, 0.4, 0.6, 0.7, 0.4)
    why = "stopped at epoch 5: val_loss was not better for 3 evaluations; the best was that of epoch 2"
    assert callbacks.why_stopped([one]) == why
    assert callbacks.why_stopped([after_losses(0.5, 0.4, 0.6, 0.7)]) == ""


def test_weights_are_compared_only_where_a_callback_may_restore_others():
    assert not callbacks.may_restore_weights([early_stopping()])
    assert callbacks.may_restore_weights([early_stopping(restore_best_weights=True)])
    assert callbacks.may_restore_weights([keras.callbacks.Callback()])


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


# What can be wrong with config.callbacks is refused, in one line that says what to write instead.

LOGGED = ("loss", "accuracy", "val_loss", "val_auc")
NO_CALLBACKS = {"Callback", "CallbackList"}


def check(*specs: object, logged=LOGGED, has_schedule=False, lacking=None) -> None:
    callback_checks.check(specs, logged=logged, has_schedule=has_schedule, lacking=lacking)


def spec(name: str, **arguments) -> dict:
    return {"class_name": name, "config": arguments}


def test_every_callback_of_keras_is_taken_or_refused_with_a_reason():
    classes = {name for name, value in vars(keras.callbacks).items() if isinstance(value, type)}
    assert classes - NO_CALLBACKS == set(SURVIVORS) | set(REFUSED)
    assert not set(SURVIVORS) & set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_survive_is_refused_with_the_list_of_what_does(name):
    with pytest.raises(InputError) as refused:
        check(spec(name))
    assert f"received '{name}'; expected a callback that survives a kill: EarlyStopping, Re" in str(
        refused.value
    )
    assert REFUSED[name] in str(refused.value)


@pytest.mark.parametrize(
    "right",
    [
        {"class_name": "EarlyStopping"},
        {"class_name": "EarlyStopping", "config": None},
        spec("EarlyStopping", monitor="loss", min_delta=-1e-3, patience=0, baseline=None, verbose=True),
        spec("EarlyStopping", monitor="val_auc", mode="max", restore_best_weights=True, start_from_epoch=2),
        spec("ReduceLROnPlateau", factor=0.5, cooldown=1, min_lr=0),
        spec("CSVLogger", filename="{workdir}/epochs.csv", separator=";", append=False),
        spec("TerminateOnNaN", raise_error=True),
    ],
)
def test_what_works_is_taken_by_the_check_and_by_keras(right):
    check(right)
    getattr(keras.callbacks, right["class_name"])(**right.get("config") or {})


@pytest.mark.parametrize("name", SURVIVORS)
def test_the_table_knows_the_arguments_that_keras_knows(name):
    parameters = inspect.signature(getattr(keras.callbacks, name)).parameters.values()
    assert set(SURVIVORS[name].arguments) == {each.name for each in parameters if each.name != "kwargs"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("EarlyStopping", r"callbacks\[0\]: received 'EarlyStopping'; expected a dict such as"),
        ({"class_name": "EarlyStopping", "config": [1]}, r"expected a dict such as"),
        ({"class_name": "EarlyStopping", "patience": 3}, r"the key 'patience'; .*Put arguments into config"),
        ({"clas_name": "EarlyStopping"}, r"the key 'clas_name'; .*Did you mean 'class_name'\?"),
        ({}, r"class_name: received None; expected a callback that survives a kill"),
        (spec("EarlyStoping"), r"received 'EarlyStoping'; .*Did you mean 'EarlyStopping'\?"),
        (spec("Dense"), r"received 'Dense'; .*Correct its class_name"),
        (spec("EarlyStopping", patiance=3), r"the argument 'patiance'; .*Did you mean 'patience'\?"),
        (spec("EarlyStopping", patience=2.5), r"patience: received 2.5; expected a whole number, 0 or more"),
        (spec("EarlyStopping", patience=True), r"patience: received True"),
        (spec("EarlyStopping", patience="3"), r"patience: received '3'"),
        (spec("EarlyStopping", min_delta=float("nan")), r"min_delta: received nan; expected a number"),
        (spec("EarlyStopping", restore_best_weights=1), r"received 1; expected True or False"),
        (spec("EarlyStopping", mode="maximum"), r"received 'maximum'; expected 'auto', 'min' or 'max'"),
        (spec("EarlyStopping", monitor=None), r"monitor: received None; expected a string"),
        (spec("EarlyStopping", monitor="val_los"), r"received 'val_los'; .*Did you mean 'val_loss'\?"),
        (spec("EarlyStopping", monitor="val_auc"), r"expected 'max' or 'min': Keras cannot tell .*val_auc"),
        (spec("EarlyStopping", monitor="accuracy", mode="auto"), r"mode: received none, or 'auto'"),
        (spec("ReduceLROnPlateau", factor=1.0), r"factor: received 1.0; expected a number between 0 and 1"),
        (spec("ReduceLROnPlateau", min_lr=-1), r"min_lr: received -1; expected a number, 0 or more"),
        (spec("CSVLogger"), r"CSVLogger: received no filename"),
        (spec("CSVLogger", filename="epochs.csv"), r"received 'epochs.csv'; expected '\{workdir\}/NAME'"),
        (spec("CSVLogger", filename="{workdir}/../epochs.csv"), r"expected '\{workdir\}/NAME'"),
        (spec("CSVLogger", filename="/tmp/{workdir}/epochs.csv"), r"expected '\{workdir\}/NAME'"),
        (spec("CSVLogger", filename="{workdir}/run.json"), r"where NAME ends in .csv"),
        (spec("CSVLogger", filename="{workdir}/"), r"where NAME ends in .csv"),
        (spec("CSVLogger", filename="{workdir}/a.csv", separator=", "), r"expected one character"),
        (spec("CSVLogger", filename="{workdir}/a.csv", append=True), r"append: received True; .*goes on"),
    ],
)
def test_what_cannot_work_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        check(wrong)


def test_two_callbacks_cannot_write_one_file():
    one = spec("CSVLogger", filename="{workdir}/a.csv")
    with pytest.raises(InputError, match=r"callbacks\[1\], CSVLogger, filename: .*another callback writes"):
        check(one, one)


def test_without_a_validation_nothing_of_it_can_be_monitored():
    lacking = callback_checks.NoValidation(reason="but there is no validation split", setting="--split=x")
    message = r"'val_loss', but there is no validation split; .*: loss, accuracy\. .*, or set --split=x\."
    with pytest.raises(InputError, match=message):
        check(spec("EarlyStopping"), logged=("loss", "accuracy"), lacking=lacking)


def test_a_schedule_leaves_no_learning_rate_to_reduce():
    with pytest.raises(
        InputError, match=r"ReduceLROnPlateau: received a learning rate that follows a schedule"
    ):
        check(spec("ReduceLROnPlateau"), has_schedule=True)


# Each callback of the table over a kill and a restart: all its numbers are those of the undisturbed run.

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
    loop = inner_loop(strategy, one_step, iter(distributed(strategy, batches)))
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


@pytest.mark.parametrize("name", quick_cases(CASES, ["EarlyStopping", "CSVLogger"]))
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

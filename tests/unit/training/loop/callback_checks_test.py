"""What can be wrong with config.callbacks is refused, in one line that says what to write instead."""

import inspect

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.loop import callback_checks
from pipeline.training.loop.callbacks import REFUSED, SURVIVORS

LOGGED = ("loss", "accuracy", "val_loss", "val_auc")
NO_CALLBACKS = {"Callback", "CallbackList"}


def check(*specs: object, logged=LOGGED, has_schedule=False, lacking="") -> None:
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
    with pytest.raises(
        InputError, match=r"'val_loss', but there is no validation split; .*: loss, accuracy\."
    ):
        check(spec("EarlyStopping"), logged=("loss", "accuracy"), lacking="but there is no validation split")


def test_a_schedule_leaves_no_learning_rate_to_reduce():
    with pytest.raises(
        InputError, match=r"ReduceLROnPlateau: received a learning rate that follows a schedule"
    ):
        check(spec("ReduceLROnPlateau"), has_schedule=True)

"""Callbacks of a user's own: called on the chief, over a kill, and stopped by their own mistakes."""

import json
import pathlib
import sys

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.experiment import own_classes
from pipeline.training.loop import own_callbacks
from pipeline.training.run import run, setup

SOURCE = '''
import json, os, pathlib
import keras

class Diary(keras.callbacks.Callback):
    """Writes a line for each hook."""

    def __init__(self, path, stop_after=99):
        super().__init__()
        self.path, self.stop_after = path, stop_after

    def note(self, *words):
        with open(self.path, "a") as file:
            print(*words, file=file)

    def on_train_begin(self, logs=None):
        self.note("begin", len(self.model.weights) > 0, self.params["epochs"])

    def on_train_batch_end(self, batch, logs=None):
        self.note("batch", batch, *sorted(logs))

    def on_epoch_end(self, epoch, logs=None):
        self.note("epoch", epoch, "val_loss" in logs)
        self.model.stop_training = epoch + 1 >= self.stop_after

    def on_train_end(self, logs=None):
        self.note("end")

class Counter(Diary):
    """Keeps its count over a kill."""

    epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self.epochs += 1
        self.note("epochs", self.epochs)

    def get_state(self):
        return {"epochs": self.epochs}

    def set_state(self, state):
        self.epochs = state["epochs"]

class Broken(keras.callbacks.Callback):
    def __init__(self, fails_in_epoch=0, at_once=False):
        super().__init__()
        self.fails_in_epoch = 1 / 0 if at_once else fails_in_epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.fails_in_epoch:
            raise KeyError("no such metric")

class NoCallback:
    pass

ModelCheckpoint = keras.callbacks.ModelCheckpoint
'''
MODULE = "my_diary"


@pytest.fixture
def own(tmp_path, monkeypatch) -> pathlib.Path:
    """The file of a user, in a folder of Python's path."""
    file = tmp_path / "code" / f"{MODULE}.py"
    file.parent.mkdir()
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(file.parent)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return file


def spec(name: str, **arguments) -> dict:
    return {"class_name": f"{MODULE}:{name}", "config": arguments}


def record(workdir: pathlib.Path) -> dict:
    return json.loads((workdir / "run.json").read_text())


@pytest.mark.slow
def test_gets_the_hooks_of_keras_stops_the_run_and_is_told_of(own, request_for, config, tmp_path, capsys):
    diary = tmp_path / "diary.txt"
    config.callbacks = (spec("Diary", path=str(diary), stop_after=2),)
    run.train(request_for(tmp_path / "run"))
    lines = diary.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("begin True 4", "end")  # 38 steps reach into a fourth epoch
    assert [line for line in lines if line.startswith("epoch")] == ["epoch 0 True", "epoch 1 True"]
    batches = [line for line in lines[: lines.index("epoch 0 True")] if line.startswith("batch")]
    assert batches == [f"batch {last} accuracy loss" for last in (3, 5, 7, 9, 11, 12)]  # of 13 steps
    assert record(tmp_path / "run")["steps"] == 25  # two epochs of 12.5
    (told,) = record(tmp_path / "run")["callbacks"]
    assert (told["class_name"], told["exact"]) == ("my_diary:Diary", False)
    assert (told["code"]["folder"], [*told["code"]["files"]]) == (str(own.parent), [own.name])
    said = "my_diary:Diary, exact: false (it has no get_state and set_state, so a kill loses its state)"
    assert f"callback   {said}" in capsys.readouterr().out
    assert said in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
def test_a_mistake_names_its_line_and_corrected_the_run_goes_on(own, request_for, config, tmp_path):
    """What a checkpoint holds of another callback is taken up again."""
    diary = tmp_path / "diary.txt"
    config.callbacks = (spec("Counter", path=str(diary)), spec("Broken", fails_in_epoch=1))
    line = 1 + SOURCE.splitlines().index('            raise KeyError("no such metric")')
    asked = request_for(tmp_path / "run")
    assert [each["exact"] for each in asdict_callbacks(asked)] == [True, False]
    with pytest.raises(
        InputError, match=rf"my_diary:Broken, on_epoch_end: received KeyError: .*, line {line};"
    ):
        run.train(asked)
    own.write_text(SOURCE.replace("if epoch == self.fails_in_epoch:", "if epoch < 0:"))
    sys.modules.pop(MODULE)
    run.train(asked)
    found = diary.read_text().splitlines()
    # The second epoch's end was lost with the process, and is called again.
    assert [each for each in found if each.startswith("epochs")] == [f"epochs {n}" for n in (1, 2, 2, 3)]
    changed = [each["why_not"] for each in record(tmp_path / "run")["callbacks"]]
    assert changed[0] == "its code has changed since the run began"


def asdict_callbacks(asked) -> tuple:
    return setup.decide(asked).record.callbacks


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (spec("Diry", path="x"), r"received no Diry in .*my_diary\.py; .*Did you mean my_diary:Diary\?"),
        (spec("Diary", path="x", stop=1), r"received the argument 'stop'; expected some of path, stop_after"),
        (
            spec("NoCallback"),
            r"received the class NoCallback; expected a subclass of keras.callbacks.Callback",
        ),
        (spec("ModelCheckpoint", filepath="x"), r"received a callback of Keras; .*The run saves itself"),
        ({"class_name": "no_such_file:Mine"}, r"no module no_such_file"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_built(
    own, request_for, config, tmp_path, wrong, message
):
    config.callbacks = (wrong,)
    with pytest.raises(InputError, match=message):
        setup.decide(request_for(tmp_path / "run"))


class Unkept(keras.callbacks.Callback):
    def get_state(self):
        return {"seen": {1, 2}}

    def set_state(self, state):
        pass


def test_a_state_that_no_checkpoint_can_hold_is_named():
    own = own_callbacks.OwnCallback("my:Unkept", Unkept())
    with pytest.raises(InputError, match=r"my:Unkept, get_state: received a checkpoint cannot hold a set"):
        own.state()


class Ending(keras.callbacks.Callback):
    def __init__(self, at_once=False):
        super().__init__()
        if at_once:
            sys.exit(0)

    def on_epoch_end(self, epoch, logs=None):
        sys.exit(0)


def test_one_that_would_end_the_process_is_named_with_its_line():
    own = own_callbacks.OwnCallback("my:Ending", Ending())
    said = r"received SystemExit: 0; .*own_callbacks_test\.py, line \d+; .*model\.stop_training = True\."
    with pytest.raises(InputError, match=said):
        own.on_epoch_end(0)
    with pytest.raises(InputError, match=r"received SystemExit: 0; .*own_callbacks_test\.py, line \d+\.$"):
        own_classes.make(Ending, spec("Ending", at_once=True), key="config.callbacks")


@pytest.mark.slow
def test_a_constructor_that_fails_is_refused_before_the_first_step(own, request_for, config, tmp_path):
    config.callbacks = (spec("Broken", at_once=True),)
    with pytest.raises(InputError, match=r"ZeroDivisionError: division by zero; .*my_diary.py, line 47"):
        run.train(request_for(tmp_path / "run"))
    assert not (tmp_path / "run" / "history.jsonl").exists()

"""The code of a model: what a `.keras` file may name, and the optional libraries of models."""

import importlib.util
import json
import os
import pathlib
import zipfile

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.experiment import model_code
from pipeline.training.experiment.config import ANYWHERE, Model, Place


def named(name: str, place: Place = ANYWHERE) -> Model:
    return Model(name=name, options={}, seed=0, place=place)


@pytest.mark.skipif(bool(importlib.util.find_spec("keras_hub")), reason="keras-hub is installed")
def test_an_optional_library_that_is_missing_is_named():
    with pytest.raises(
        InputError, match=r"received a Python environment without keras-hub; .*requirements/models\.txt"
    ):
        model_code.locate(named("keras_hub:ViTBackbone"))


def test_a_file_that_is_not_there_is_one_line():
    with pytest.raises(InputError, match=r"none\.keras: received no such file; "):
        model_code.locate(named("none.keras"))


def saved(path: pathlib.Path, config: object) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
    return os.fspath(path)


@pytest.mark.parametrize(
    ("module", "registered"), [("mine.layers", "Gate"), (None, "mine>Gate"), ("os", "system")]
)
def test_a_keras_file_that_names_code_is_refused(tmp_path, module, registered):
    layer = {"module": module, "class_name": "Gate", "registered_name": registered, "config": {}}
    name = saved(tmp_path / "gate.keras", {"config": {"layers": [layer]}})
    with pytest.raises(InputError, match=r"received a model with the class Gate of the module (mine|os)"):
        model_code.locate(named(name))


def test_a_registered_name_without_a_class_is_refused(tmp_path):
    name = saved(tmp_path / "gate.keras", {"registered_name": "mine>Gate"})
    with pytest.raises(InputError, match=r"received a model with the class None of the module mine"):
        model_code.locate(named(name))


@pytest.mark.parametrize("module", ["keras_rs.evil", "models.evil"])
def test_a_folder_with_the_name_of_a_library_is_none(tmp_path, monkeypatch, module):
    path = tmp_path / f"{module.replace('.', '/')}.py"
    path.parent.mkdir()
    for file in (path, path.with_name("__init__.py")):
        file.write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    name = saved(tmp_path / "gate.keras", {"module": module, "class_name": "Gate", "config": {}})
    with pytest.raises(InputError, match=rf"received a model with the class Gate of the module {module}"):
        model_code.locate(named(name))


def test_a_file_that_is_no_keras_model_is_refused(tmp_path):
    (tmp_path / "text.keras").write_text("no")
    for name in (str(tmp_path / "text.keras"), saved(tmp_path / "list.keras", [])):
        with pytest.raises(
            InputError, match=r"received .*Keras model|received ValueError|received TypeError"
        ):
            model_code.locate(named(name)).load()()


def damaged(path: pathlib.Path, *, kind: str) -> str:
    """An archive whose member is encrypted, packed in an unknown way, or whose deflated bytes are broken."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", "{}" * 50)
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    for start, flags, method in ((0, 6, 8), (central, 8, 10)):
        if kind == "encrypted":
            data[start + flags] |= 1
        elif kind == "unknown":
            data[start + method] = 99
    if kind == "broken":
        data[30 + len("config.json")] = 0xFF
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("kind", ["encrypted", "unknown", "broken"])
def test_a_damaged_archive_is_one_line(tmp_path, kind):
    with pytest.raises(InputError, match=r"received a file that is no Keras model \("):
        model_code.locate(named(damaged(tmp_path / "a.keras", kind=kind)))


def test_a_runs_own_copy_of_a_keras_file_serves_when_the_file_is_gone(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / "first.keras")
    name = str(tmp_path / "first.keras")
    record = model_code.locate(named(name)).record
    (tmp_path / "run").mkdir()
    (tmp_path / "first.keras").rename(tmp_path / "run" / "model.keras")
    code = model_code.locate(named(name, Place(recorded={name: record}, workdir=tmp_path / "run")))
    again = code.load()()
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        assert (one == other).all()
    (tmp_path / "run" / "model.keras").write_bytes((tmp_path / "run" / "model.keras").read_bytes() + b" ")
    with pytest.raises(InputError, match=r"received another file, SHA-256"):
        model_code.locate(named(name, Place(recorded={name: record}, workdir=tmp_path / "run")))

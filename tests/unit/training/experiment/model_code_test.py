"""A name becomes code: found without running it, recorded by digest, imported only as it was recorded."""

import importlib.util
import json
import os
import pathlib
import sys
import zipfile

import keras
import pytest

from pipeline.base.errors import InputError
from pipeline.training.experiment import model_code
from pipeline.training.experiment.config import Model

BUILD = "def build():\n    return 7\n"


@pytest.fixture(autouse=True)
def own_modules(monkeypatch):
    """What a test imports is gone behind it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(folder: pathlib.Path, **texts: str) -> pathlib.Path:
    """Python files by module: `package__module` stands for package/module.py."""
    for module, text in texts.items():
        path = folder / f"{module.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def named(name: str, folder: pathlib.Path | str = "", **more) -> Model:
    return Model(name=name, options={}, seed=0, folder=str(folder), **more)


def test_own_files_are_recorded_with_all_that_they_import_beside_them(tmp_path):
    written(
        tmp_path,
        net="import json\nimport parts.blocks as b\ndef build():\n    from late import x\n",
        parts__blocks="from . import sizes\nfrom .deep.inner import y\nimport keras\n",
        parts__sizes="",
        parts__deep__inner="",
        late="x = 1\n",
        other="",
    )
    record = model_code.locate(named("net:build", tmp_path)).record
    names = ["late.py", "net.py", "parts/blocks.py", "parts/deep/inner.py", "parts/sizes.py"]
    assert (record["folder"], sorted(record["files"])) == (str(tmp_path), names)
    assert "net" not in sys.modules


def test_a_package_counts_with_its_init_files(tmp_path):
    (written(tmp_path, pack__net=BUILD) / "pack" / "__init__.py").write_text("from pack import more\n")
    written(tmp_path, pack__more="")
    code = model_code.locate(named("pack.net:build", tmp_path))
    assert sorted(code.record["files"]) == ["pack/__init__.py", "pack/more.py", "pack/net.py"]
    assert code.load()() == 7


@pytest.mark.parametrize("place", ["config", "working", "path"])
def test_a_file_is_found_beside_the_config_or_where_the_command_starts_or_on_pythonpath(
    tmp_path, monkeypatch, place
):
    written(tmp_path, somewhere=BUILD)
    if place == "working":
        monkeypatch.chdir(tmp_path)
    if place == "path":
        sys.path.append(str(tmp_path))
    assert model_code.locate(named("somewhere:build", tmp_path if place == "config" else "")).load()() == 7


def test_code_that_has_changed_is_named_and_not_imported(tmp_path):
    written(tmp_path, grown="import parts\n" + BUILD, parts="x = 1\n")
    record = model_code.locate(named("grown:build", tmp_path)).record
    written(tmp_path, parts=f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    again = named("grown:build", tmp_path, recorded=record)
    with pytest.raises(InputError, match=r"grown:build: received parts\.py has changed: SHA-256 .*Put that"):
        model_code.locate(again)
    assert not (tmp_path / "ran").exists()
    written(tmp_path, grown="import parts, more\n" + BUILD, parts="x = 1\n", more="")
    with pytest.raises(InputError, match=r"received grown\.py has changed"):
        model_code.locate(again)


def test_code_that_was_moved_is_found_on_pythonpath(tmp_path):
    first = written(tmp_path / "first", moved=BUILD)
    record = model_code.locate(named("moved:build", first)).record
    (first / "moved.py").unlink()
    args = named("moved:build", first, recorded=record)
    with pytest.raises(
        InputError, match=r"received no module moved; .*put the file's folder back or into PY"
    ):
        model_code.locate(args)
    sys.path.append(str(written(tmp_path / "second", moved=BUILD)))
    assert model_code.locate(args).load()() == 7


def test_own_code_elsewhere_is_refused_as_another_process_might_not_find_it(tmp_path):
    written(tmp_path / "here", user="import far_helper\n" + BUILD)
    args = named("user:build", tmp_path / "here")
    assert list(model_code.locate(args).record["files"]) == ["user.py"]  # its import tells what is missing
    sys.path.append(str(written(tmp_path / "there", far_helper="")))
    with pytest.raises(
        InputError, match=r"user\.py: received an import of far_helper in .*there; .*Put far_h"
    ):
        model_code.locate(args)


def test_a_library_is_known_by_its_version():
    name = "keras.applications:ResNet50V2"
    code = model_code.locate(named(name))
    assert code.record == {"name": name, "package": "keras", "version": keras.__version__}
    assert code.load() is keras.applications.ResNet50V2
    with pytest.raises(InputError, match=rf"received keras {keras.__version__}, where it was keras 3\.0; "):
        model_code.locate(named(name, recorded=dict(code.record, version="3.0")))


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (BUILD, "absent:build", r"received no module absent; expected absent\.py in .*PYTHONPATH"),
        (BUILD, "bad_1.py:build", r"received 'bad_1\.py:build'; .*Write bad_1:build"),
        (BUILD, "folder/bad_1.py:build", r"Write folder\.bad_1:build"),
        (BUILD, "bad_2:biuld", r"received no biuld in .*bad_2\.py; .*Did you mean bad_2:build\?"),
        ("def build(:\n", "bad_3:build", r"SyntaxError: .*Correct .*bad_3\.py, line 1\."),
        ("\nimport nothing_such\n", "bad_4:build", r"received ModuleNotFoundError: .*bad_4\.py, line 2\."),
        ("x = 1\ny = x / 0\n", "bad_5:build", r"ZeroDivisionError: .*bad_5\.py, line 2\."),
        ("import sys\nsys.exit(3)\n", "bad_6:build", r"received SystemExit: 3.*bad_6\.py, line 2\."),
        ("build = 3\n", "bad_7:build", r"received a int; expected a function or a class"),
        (BUILD, "keras:build", r"received no build in .*keras"),
        (BUILD, "os:system", r"received no module os; "),
        (BUILD, "none.keras", r"none\.keras: received no such file; "),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(tmp_path, text, name, message):
    written(tmp_path, **{name.partition(":")[0].partition(".")[0].rpartition("/")[2]: text})
    for other in ("absent", "keras", "os"):
        (tmp_path / f"{other}.py").unlink(missing_ok=True)
    with pytest.raises(InputError, match=message) as raised:
        model_code.locate(named(name, tmp_path)).load()
    assert str(raised.value).isprintable()


def test_a_file_whose_name_another_module_has_is_refused_before_either_is_run(tmp_path):
    written(tmp_path / "here", twice=BUILD)
    sys.path.insert(0, str(written(tmp_path / "there", twice="raise RuntimeError\n")))
    with pytest.raises(InputError, match=r"received another module twice, .*there.*a name that no other"):
        model_code.locate(named("twice:build", tmp_path / "here")).load()


@pytest.mark.skipif(bool(importlib.util.find_spec("keras_hub")), reason="keras-hub is installed")
def test_an_optional_library_that_is_missing_is_named():
    with pytest.raises(InputError, match=r"received keras-hub is not installed; .*requirements/models\.txt"):
        model_code.locate(named("keras_hub:ViTBackbone"))


# .keras files: data, which may name code.


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


def test_a_file_that_is_no_keras_model_is_refused(tmp_path):
    (tmp_path / "text.keras").write_text("no")
    for name in (str(tmp_path / "text.keras"), saved(tmp_path / "list.keras", [])):
        with pytest.raises(
            InputError, match=r"received .*Keras model|received ValueError|received TypeError"
        ):
            model_code.locate(named(name)).load()()


def test_a_runs_own_copy_of_a_keras_file_serves_when_the_file_is_gone(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(tmp_path / "first.keras")
    name = str(tmp_path / "first.keras")
    record = model_code.locate(named(name)).record
    (tmp_path / "run").mkdir()
    (tmp_path / "first.keras").rename(tmp_path / "run" / "model.keras")
    code = model_code.locate(named(name, recorded=record, workdir=tmp_path / "run"))
    again = code.load()()
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        assert (one == other).all()
    (tmp_path / "run" / "model.keras").write_bytes((tmp_path / "run" / "model.keras").read_bytes() + b" ")
    with pytest.raises(InputError, match=r"received another file, SHA-256"):
        model_code.locate(named(name, recorded=record, workdir=tmp_path / "run"))

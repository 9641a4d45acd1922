"""A name becomes code: found without running it, recorded by digest, imported only as it was recorded."""

import functools
import json
import pathlib
import py_compile
import sys
from collections.abc import Mapping

import keras
import pytest

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.training.experiment import code, restore
from pipeline.training.experiment.config import Place
from pipeline.training.run import run

BUILD = "def build():\n    return 7\n"


@pytest.fixture(autouse=True)
def own_modules(monkeypatch):
    """What a test imports is gone behind it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
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


KEY = "--config.loss.name"


def found(name: str, folder: pathlib.Path | str = "", recorded: Mapping | None = None) -> code.Code:
    place = Place(folder=str(folder), recorded={name: recorded} if recorded else {})
    return code.find(name, key=KEY, place=place)


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
    record = found("net:build", tmp_path).record
    names = ["late.py", "net.py", "parts/blocks.py", "parts/deep/inner.py", "parts/sizes.py"]
    assert (record["folder"], sorted(record["files"])) == (str(tmp_path), names)
    assert "net" not in sys.modules


def test_a_package_counts_with_its_init_files(tmp_path):
    (written(tmp_path, pack__net=BUILD) / "pack" / "__init__.py").write_text("from pack import more\n")
    written(tmp_path, pack__more="")
    package = found("pack.net:build", tmp_path)
    assert sorted(package.record["files"]) == ["pack/__init__.py", "pack/more.py", "pack/net.py"]
    assert package.load()() == 7


@pytest.mark.parametrize("place", ["config", "working", "path"])
def test_a_file_is_found_beside_the_config_or_where_the_command_starts_or_on_pythonpath(
    tmp_path, monkeypatch, place
):
    written(tmp_path, somewhere=BUILD)
    if place == "working":
        monkeypatch.chdir(tmp_path)
    if place == "path":
        sys.path.append(str(tmp_path))
    assert found("somewhere:build", tmp_path if place == "config" else "").load()() == 7


def test_code_that_has_changed_is_named_and_not_imported(tmp_path):
    written(tmp_path, grown="import parts\n" + BUILD, parts="x = 1\n")
    record = found("grown:build", tmp_path).record
    written(tmp_path, parts=f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(InputError, match=r"grown:build: received parts\.py has changed: SHA-256 .*Put that"):
        found("grown:build", tmp_path, record)
    assert not (tmp_path / "ran").exists()
    written(tmp_path, grown="import parts, more\n" + BUILD, parts="x = 1\n", more="")
    with pytest.raises(InputError, match=r"received grown\.py has changed"):
        found("grown:build", tmp_path, record)


def test_code_that_was_moved_is_found_on_pythonpath(tmp_path):
    first = written(tmp_path / "first", moved=BUILD)
    record = found("moved:build", first).record
    (first / "moved.py").unlink()
    with pytest.raises(
        InputError, match=r"received no module moved; .*put the file's folder back or into PY"
    ):
        found("moved:build", first, record)
    sys.path.append(str(written(tmp_path / "second", moved=BUILD)))
    assert found("moved:build", first, record).load()() == 7


def test_own_code_elsewhere_is_refused_as_another_process_might_not_find_it(tmp_path):
    written(tmp_path / "here", user="import far_helper\n" + BUILD)
    user = functools.partial(found, "user:build", tmp_path / "here")
    assert list(user().record["files"]) == ["user.py"]  # its import tells what is missing
    sys.path.append(str(written(tmp_path / "there", far_helper="")))
    with pytest.raises(
        InputError, match=r"user\.py: received an import of far_helper in .*there; .*Put far_h"
    ):
        user()


def test_own_code_that_was_installed_in_place_is_known_by_its_digests(tmp_path):
    written(tmp_path, edited=BUILD)
    information = tmp_path / "edited.egg-info"  # as `pip install -e .` leaves it
    information.mkdir()
    (information / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: edited\nVersion: 1.0\n")
    (information / "top_level.txt").write_text("edited\n")
    assert list(found("edited:build", tmp_path).record["files"]) == ["edited.py"]


@pytest.mark.parametrize(
    ("helper", "place"), [("sched", "python"), ("wrapt", "site-packages"), ("far_one", "there")]
)
def test_a_helper_whose_name_another_module_has_is_refused_before_either_is_run(tmp_path, helper, place):
    written(tmp_path / "here", **{"helped": f"import {helper}\n" + BUILD, helper: "raise RuntimeError\n"})
    sys.path.insert(0, str(written(tmp_path / "there", far_one="raise RuntimeError\n")))
    with pytest.raises(InputError, match=rf"received another module {helper}, .*{place}"):
        found("helped:build", tmp_path / "here").load()


def test_a_package_in_two_folders_is_refused_where_one_is_not_recorded(tmp_path):
    written(tmp_path / "here", split_user="import split.other\n" + BUILD, split__one="")
    sys.path.append(str(written(tmp_path / "there", split__other="")))
    with pytest.raises(InputError, match=r"received an import of split\.other in .*there; "):
        found("split_user:build", tmp_path / "here")
    written(tmp_path / "here", split__other="")
    with pytest.raises(InputError, match=r"received another module split\.other, .*there/split/other\.py"):
        found("split_user:build", tmp_path / "here").load()


def test_all_modules_count_of_a_package_that_is_imported_with_a_star(tmp_path):
    written(tmp_path, starred="from stars import *\n" + BUILD, stars__sub="import deep_1\n", deep_1="")
    (tmp_path / "stars" / "inner").mkdir()
    (tmp_path / "stars" / "inner" / "__init__.py").touch()
    (tmp_path / "stars" / "__init__.py").write_text("__all__ = ['sub', 'inner']\n")
    names = ["deep_1.py", "starred.py", "stars/__init__.py", "stars/inner/__init__.py", "stars/sub.py"]
    assert sorted(found("starred:build", tmp_path).record["files"]) == names


@pytest.mark.parametrize("ending", [".pyc", ".so"])
def test_a_module_without_its_source_is_refused(tmp_path, ending):
    written(tmp_path, unread="import helper_0\n" + BUILD)
    (tmp_path / f"helper_0{ending}").write_bytes(b"")
    with pytest.raises(InputError, match=rf"helper_0\{ending}: received a module without its source; "):
        found("unread:build", tmp_path)


def test_the_file_is_run_and_not_its_cache_of_bytecode(tmp_path):
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(written(tmp_path, cached=BUILD) / "cached.py", invalidation_mode=unchecked)
    written(tmp_path, cached=BUILD.replace("7", "8"))
    assert found("cached:build", tmp_path).load()() == 8


def test_code_that_changes_while_the_process_lives_is_refused(tmp_path):
    written(tmp_path, living="import living_part\n" + BUILD, living_part="")
    was = found("living:build", tmp_path)
    written(tmp_path, living_part="x = 1\n")
    with pytest.raises(InputError, match=r"living_part\.py: received a file that has changed since this pro"):
        was.load()
    assert found("living:build", tmp_path).load()() == 7
    written(tmp_path, living_part="x = 2\n")
    with pytest.raises(InputError, match=r"living_part\.py: received a file that has changed since this pro"):
        found("living:build", tmp_path).load()


def test_a_library_is_known_by_its_version():
    name = "keras.applications:ResNet50V2"
    library = found(name)
    assert library.record == {"package": "keras", "version": keras.__version__}
    assert library.load() is keras.applications.ResNet50V2
    with pytest.raises(InputError, match=rf"received keras {keras.__version__}, where it was keras 3\.0; "):
        found(name, recorded=dict(library.record, version="3.0"))


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
        ("from . import x\n", "bad_8:build", r"received ImportError: .*bad_8\.py, line 1\."),
        (BUILD, "os:system", r"received no module os; "),
    ],
)
def test_a_name_that_leads_nowhere_is_one_line(tmp_path, text, name, message):
    written(tmp_path, **{name.partition(":")[0].partition(".")[0].rpartition("/")[2]: text})
    for other in ("absent", "keras", "os"):
        (tmp_path / f"{other}.py").unlink(missing_ok=True)
    with pytest.raises(InputError, match=message) as raised:
        found(name, tmp_path).load()
    assert str(raised.value).isprintable()


def test_a_file_whose_name_another_module_has_is_refused_before_either_is_run(tmp_path):
    written(tmp_path / "here", twice=BUILD)
    sys.path.insert(0, str(written(tmp_path / "there", twice="raise RuntimeError\n")))
    with pytest.raises(InputError, match=r"received another module twice, .*there.*a name that no other"):
        found("twice:build", tmp_path / "here").load()


# Arguments, and a whole run.


def test_a_name_without_a_module_is_one_of_the_library():
    assert code.resolve("keras.losses:Huber", key=KEY) is keras.losses.Huber
    assert code.resolve("Huber", key=KEY, library="keras.losses") is keras.losses.Huber
    assert code.call("Huber(delta=2.0, name='h')", key="") == ("Huber", {"delta": 2.0, "name": "h"})


@pytest.mark.parametrize("text", ["f(1)", "f(a=b)", "f(", "f)(", "f(**{})"])
def test_what_is_no_call_with_plain_values_is_refused(text):
    with pytest.raises(InputError, match=r"expected a name, or a name with values|expected package\.module"):
        name, _ = code.call(text, key="--metrics")
        code.resolve(name, key="--metrics", library="keras.metrics")


OWN_CODE = """
import keras
import tensorflow as tf


def loss(labels, logits, power=2.0):
    return tf.abs(tf.cast(labels, tf.float32) - tf.sigmoid(logits[:, 0])) ** power


def found(labels, predictions, weights):
    return (weights * (labels == 1) * (predictions[:, 1] > 0.5)).sum()


def rate(learning_rate, total_steps):
    return keras.optimizers.schedules.PolynomialDecay(learning_rate, total_steps)
"""


@pytest.mark.slow
def test_a_run_of_own_code_is_recorded_and_goes_on_with_the_same_alone(request_for, tmp_path, config):
    workdir, module = tmp_path / "run", "own_code"
    written(tmp_path / "beside", own_code=OWN_CODE)
    sys.path.append(str(tmp_path / "beside"))
    config.loss = {"name": f"{module}:loss", "power": 1.5}
    config.optimizer.name, config.optimizer.schedule = "Lion(beta_1=0.8)", f"{module}:rate"
    config.train.keep_best, config.train.epochs = "max:val_found", 2.0
    config.evaluation.metrics = ("f1", "ece", "keras.metrics:BinaryAccuracy", f"{module}:found")
    run.train(request_for(workdir, strategy="mirrored"))
    record = json.loads((workdir / "run.json").read_text())
    digests = {"own_code.py": files.sha256(tmp_path / "beside" / "own_code.py")}
    own = [each for name, each in record["code"].items() if name.startswith(f"{module}:")]
    assert len(own) == 3 and all(each["files"] == digests for each in own)
    evaluation = json.loads((workdir / "evaluation.json").read_text())
    (_, (missed, hit)) = evaluation["confusion_matrix"]
    assert evaluation["found"] == hit
    assert evaluation["binary_accuracy"] == pytest.approx(evaluation["accuracy"], abs=1e-6)
    assert evaluation["f1"] == pytest.approx(
        2 * hit / (2 * hit + missed + evaluation["confusion_matrix"][0][1])
    )
    assert "by val_found" in restore.restore_model(workdir, checkpoint="").choice
    written(tmp_path / "beside", own_code=OWN_CODE.replace("** power", "* power"))
    config.train.epochs = 3.0
    with pytest.raises(
        InputError, match=r"config.loss.name=own_code:loss: received own_code\.py has changed"
    ):
        run.train(request_for(workdir, strategy="mirrored"))

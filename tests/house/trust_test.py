"""Nothing in product code runs what it reads, as SECURITY.md says: no pickles, no shells, no `eval`."""

import ast
import pathlib

import pytest

from tests.house.imports import ROOT

_MODULES = {
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "pickle",
    "runpy",
    "shelve",
    "tarfile",
    "urllib.request",
    "yaml",
}
_CALLS = {"eval", "exec", "compile", "urlopen", "extractall", "unsafe_load", "enable_unsafe_deserialization"}
_CALLS |= {"exec_module", "import_module", "load_model"}
_KEYWORDS = {"shell", "allow_pickle"}
_ALLOWED = {
    ("pipeline/base/cli/config.py", "runpy"),  # --config names a program, and says so
    ("pipeline/training/launch/member.py", "runpy"),  # the module that its launcher names
    # config.model.name, config.loss.name and their like, if they are as recorded
    ("pipeline/training/experiment/code_import.py", "import_module"),
    ("pipeline/training/experiment/model_code.py", "load_model"),  # a .keras file of Keras's own classes
    ("pipeline/__init__.py", "exec_module"),  # this project's own models/
    ("pipeline/data/preprocessing/tokenizers.py", "import_module"),  # one of two libraries, named in the code
    ("beam_jobs/launch/runners.py", "import_module"),  # likewise
    ("pipeline/exporting/conversion.py", "import_module"),  # likewise
    ("pipeline/exporting/runtimes.py", "import_module"),  # likewise
    ("pipeline/training/observers/observer.py", "import_module"),  # likewise
    ("pipeline/training/baselines/fits.py", "import_module"),  # likewise
    ("pipeline/forecast/compiler.py", "import_module"),  # likewise
    ("pipeline/exporting/keras_file.py", "import_module"),  # of the classes of the model that was exported
    ("pipeline/exporting/keras_file.py", "load_model"),  # the file that this export wrote
}
_FILES = [path for folder in ("beam_jobs", "pipeline", "models") for path in (ROOT / folder).rglob("*.py")]


def runs_data(source: str) -> set[str]:
    """What of `source` could run data: modules, functions and keywords by name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & _MODULES
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} & _MODULES
        elif isinstance(node, ast.Call):
            found |= {_name(node.func)} & _CALLS
            found |= {
                str(keyword.arg) for keyword in node.keywords if not _is_false(keyword.value)
            } & _KEYWORDS
    return found


def _name(function: ast.expr) -> str:
    # `re.compile` compiles no code, and neither does `model.compile`.
    is_own = isinstance(function, ast.Attribute) and function.attr != "compile"
    return function.attr if is_own else getattr(function, "id", "")


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from runpy import run_path",
        "eval(x)",
        "importlib.import_module(x)",
        "run(x, shell=True)",
        "np.load(x, allow_pickle=y)",
    ],
)
def test_what_runs_data_is_found(source: str):
    assert runs_data(source)


def test_product_code_runs_no_data():
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in _FILES
        for name in runs_data(pathlib.Path(path).read_text())
    }
    assert found == _ALLOWED

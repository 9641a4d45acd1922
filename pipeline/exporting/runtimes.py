"""Runtimes other than TensorFlow's that an export may hold a file for: LiteRT and ONNX Runtime.

`python -m pipeline.exporting.runtimes FORMAT MODEL INPUTS.npz ANSWERS.npz` answers the inputs with a model in
a process that has neither TensorFlow nor Keras.
"""

import dataclasses
import importlib.metadata
import importlib.util
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module  # imports packages that requirements.txt does not have

import numpy as np

from pipeline.base.errors import InputError, answers_bad_input

KERAS_FILE = "model.keras"
SIGNATURE = "predict"  # name of the one signature of a LiteRT file

Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runtime:
    """A format of models, and what runs it.

    Attributes:
      name: usual name of the runtime.
      package: name of the runtime on PyPI.
      modules: modules that converting and running import.
      answer: a model's file and its inputs, [rows, …] each → its outputs by name, [rows, …] each.
    """

    name: str
    file_name: str
    package: str
    modules: tuple[str, ...]
    answer: Callable[[pathlib.Path, Arrays], dict[str, np.ndarray]]

    @property
    def version(self) -> str:
        """The package and its version, as installed here."""
        return f"{self.package} {importlib.metadata.version(self.package)}"


def _litert(model: pathlib.Path, inputs: Arrays) -> dict[str, np.ndarray]:
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_path=str(model))
    return interpreter.get_signature_runner(SIGNATURE)(**inputs)


def _onnx(model: pathlib.Path, inputs: Arrays) -> dict[str, np.ndarray]:
    session = import_module("onnxruntime").InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


RUNTIMES: Mapping[str, Runtime] = {
    "litert": Runtime(
        name="LiteRT",
        file_name="model.tflite",
        package="ai-edge-litert",
        modules=("ai_edge_litert",),
        answer=_litert,
    ),
    "onnx": Runtime(
        name="ONNX Runtime",
        file_name="model.onnx",
        package="onnxruntime",
        modules=("onnx", "onnxruntime", "tf2onnx"),
        answer=_onnx,
    ),
}


# Files that TensorFlow does not read.
OTHER_FILES = (KERAS_FILE, *(runtime.file_name for runtime in RUNTIMES.values()))


def require(formats: Sequence[str], *, setting: str) -> None:
    """Raises InputError where one of the formats is unknown, or a package that it needs is not installed."""
    for each in formats:
        if each not in RUNTIMES:
            raise InputError(
                setting,
                received=repr(each),
                expected=f"some of {', '.join(RUNTIMES)}",
                action="The SavedModel and model.keras are always there: they need no format.",
            )
        if absent := [name for name in RUNTIMES[each].modules if importlib.util.find_spec(name) is None]:
            raise InputError(
                f"{setting} {each!r}",
                received=f"a Python environment without {', '.join(absent)}",
                expected=f"what converts to {RUNTIMES[each].name} and runs it",
                action="Install them: pip install -r requirements/export.txt, or 'penstock[export]'.",
            )


# --- Arrays on their way to the process that runs a model, and back.

_PREFIX = "array "  # numpy.savez has arguments of its own, such as `file`


def save(path: pathlib.Path, arrays: Arrays) -> None:
    """Writes arrays; their names may be any text."""
    np.savez(path, **{f"{_PREFIX}{name}": values for name, values in arrays.items()})


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads what `save` wrote."""
    with np.load(path) as stored:
        return {name.removeprefix(_PREFIX): values for name, values in stored.items()}


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    """Answers all rows at once, then the first row by itself; its answer is appended."""
    runtime, *paths = argv[1:]
    model, given, answered = map(pathlib.Path, paths)
    inputs, answer = load(given), RUNTIMES[runtime].answer
    together = answer(model, inputs)
    alone = answer(model, {name: values[:1] for name, values in inputs.items()})
    save(answered, {name: np.concatenate([together[name], alone[name]]) for name in together})


if __name__ == "__main__":
    sys.exit(main(sys.argv))

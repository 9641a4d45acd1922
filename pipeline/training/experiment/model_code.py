"""The code of a model: one of models/registry.py, `package.module:function`, or a `.keras` file."""

import dataclasses
import functools
import json
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.base import files
from pipeline.base.errors import InputError, unknown_name
from pipeline.training.experiment import code as code_lib
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.code import Code, is_named
from pipeline.training.experiment.config import Experiment
from pipeline.training.state.workdir import Workdir

if TYPE_CHECKING:
    import keras

_KEY = "--config.model.name"
_APPLICATIONS = "keras.applications:"
_WEIGHTS = "weights"  # the argument of keras.applications that names a file
# Packages whose classes a `.keras` file may name, because Keras imports the modules that the file names.
_TRUSTED = ("keras", "keras_hub", "keras_rs")


def locate(args: config_lib.Model) -> Code:
    """Finds the code of a model, without running it.

    Raises:
      InputError: there is no such code; or it is not what run.json recorded.
    """
    if args.name.endswith(".keras"):
        return _saved(args)
    if is_named(args.name):
        return code_lib.find(args.name, key=_KEY, place=args.place, more=_weights(args))
    from models.registry import MODELS  # imported here: a plan of retraining reads digests without TensorFlow

    if args.name in MODELS:
        return Code(name=args.name, key=_KEY, where="models/", load=lambda: MODELS[args.name])
    raise unknown_name(
        _KEY,
        args.name,
        MODELS,
        otherwise="Correct it in the config file or on the command line, add the model to MODELS in "
        "models/registry.py, or name a function of your own as module:function.",
    )


def records(experiment: Experiment) -> dict[str, Mapping[str, object]]:
    """The entries of run.json about all code that a config names, by name; nothing is run.

    Raises:
      InputError: some of it is not there, or not as it was recorded.
    """
    name = experiment.model.name
    is_recorded = is_named(name) or name.endswith(".keras")
    model = {name: locate(experiment.model).record} if is_recorded else {}
    return model | code_lib.records(experiment)


def _weights(args: config_lib.Model) -> dict[str, str]:
    """The digest of the file that gives keras.applications its first weights, where there is one."""
    file = pathlib.Path(str(args.options.get(_WEIGHTS, "")))
    is_given = args.name.startswith(_APPLICATIONS) and file.is_file()
    return {_WEIGHTS: files.sha256(file)} if is_given else {}


def without_first_weights(args: config_lib.Model) -> config_lib.Model:
    """Returns the arguments that build the same model when a checkpoint gives the weights: no file of weights
    is needed.
    """
    if not args.name.startswith(_APPLICATIONS):
        return args
    options = {name: value for name, value in args.options.items() if name != _WEIGHTS}
    return dataclasses.replace(args, options=options)


# --- A `.keras` file.


def _saved(args: config_lib.Model) -> Code:
    file = _keras_file(args)
    digest = files.sha256(file)
    _require_harmless(args.name, file)
    code = Code(
        name=args.name,
        key=_KEY,
        where=str(file),
        load=lambda: functools.partial(_loaded, args.name, file),
        record={"file": str(file), "sha256": digest},
        files=(file,),
    )
    code_lib.require_recorded(code, args.place)
    return code


def _keras_file(args: config_lib.Model) -> pathlib.Path:
    """A run's own copy where it has one, else the file in the working directory or beside the config."""
    place = args.place
    copies = [Workdir(place.workdir).keras_file] if args.name in place.recorded and place.workdir else []
    for path in [*copies, pathlib.Path(args.name), pathlib.Path(place.folder, args.name)]:
        if path.is_file():
            return path.absolute()
    raise InputError(
        f"{_KEY}={args.name}",
        received="no such file",
        expected="a .keras file, in the working directory or in the folder of the config",
        action="Correct the path.",
    )


def _require_harmless(name: str, file: pathlib.Path) -> None:
    """Raises InputError for a file that names code: loading the file would import that code, which may have
    changed.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            config = json.loads(archive.read("config.json"))
    except (OSError, KeyError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"{_KEY}={name}",
            received=f"a file that is no Keras model ({' '.join(str(error).split())})",
            expected="a .keras file, as model.save() writes it",
            action="Save the model again with model.save('NAME.keras').",
        ) from None
    for module, of in sorted(_named_modules(config)):
        if not _is_trusted(module):
            raise InputError(
                f"{_KEY}={name}",
                received=f"a model with the class {of} of the module {module}",
                expected="classes of Keras alone: what else a .keras file names would be run unseen",
                action="Name a function that builds the model, or that loads this file, as module:function.",
            )


def _is_trusted(module: str) -> bool:
    """Returns whether a module is Keras's or Penstock's, judged by its place, because a folder can have any
    name.
    """
    top = module.partition(".")[0]
    return (
        module == "builtins"
        or (top in _TRUSTED and code_lib.is_library(top))
        or (top == "models" and code_lib.is_ours(module))
    )


def _named_modules(config: object) -> Iterator[tuple[str, str]]:
    if isinstance(config, Mapping):
        if isinstance(config.get("module"), str) and "class_name" in config:
            yield config["module"], str(config["class_name"])
        elif config.get("registered_name") and ">" in str(config["registered_name"]):
            yield str(config["registered_name"]).partition(">")[0], str(config.get("class_name"))
        config = list(config.values())
    if isinstance(config, Sequence) and not isinstance(config, str):
        for each in config:
            yield from _named_modules(each)


def _loaded(name: str, file: pathlib.Path) -> "keras.Model":
    import keras

    try:
        return keras.saving.load_model(file, compile=False, safe_mode=True)
    except Exception as error:
        raise InputError(
            f"{_KEY}={name}",
            received=f"{type(error).__name__}: {' '.join(str(error).split())}",
            expected="a model that this Keras can load",
            action=f"Save {file} again with this version of Keras, {keras.__version__}.",
        ) from None

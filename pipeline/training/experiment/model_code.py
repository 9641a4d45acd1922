"""The code behind `--config.model.name`: found by its name, imported only if it is what was recorded.

A name is one of models/registry.py, `package.module:function` of an own file or of an installed library, or a
`.keras` file. Finding it runs nothing: an own file is read as text, with every module beside it that it
imports. run.json holds what was found, so a fresh process builds the same model or says what changed.
"""

import ast
import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import pathlib
import sys
import sysconfig
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import keras

from models.registry import MODELS
from pipeline.base import files
from pipeline.base.errors import InputError, did_you_mean, unknown_name
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.config import Experiment
from pipeline.training.state.workdir import Workdir

_KEY = "--config.model.name"
_OPTIONAL = {"keras_hub": "keras-hub", "keras_rs": "keras-rs"}  # packages of the extra `models`
WEIGHTS = "weights"  # the argument of keras.applications that names a file
_OURS = frozenset({"pipeline", "beam_jobs"})
_NOT_OWN = tuple(pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(pathlib.Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))
_ROOT = pathlib.Path(__file__).parents[3]  # of Penstock
# Whose classes a `.keras` file may name: Keras imports the modules that it finds in there.
_TRUSTED = ("keras", "keras_hub", "keras_rs", "models", "builtins")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelCode:
    """What a name stands for, found and not yet run.

    Attributes:
      name: as the config has it.
      where: as errors say where to correct it.
      record: what run.json says of it; empty for a model of the registry, whose version is Penstock's.
      load: function () → the function or class that builds the model. It runs the code.
      files: own files, whose frames are the model's; empty: those beside the function.
      is_library: nobody here can correct it.
    """

    name: str
    where: str
    load: Callable[[], Callable[..., object]]
    record: Mapping[str, object] = dataclasses.field(default_factory=dict)
    files: tuple[pathlib.Path, ...] = ()
    is_library: bool = False

    def owns(self, file: str) -> bool:
        """Returns whether the model's own code is in a file: where errors point to."""
        if self.files:
            return pathlib.Path(file) in self.files
        written = inspect.getsourcefile(inspect.unwrap(self.load()))
        return pathlib.Path(file).parent == pathlib.Path(written or "").parent

    @property
    def keras_file(self) -> pathlib.Path | None:
        """The `.keras` file, which a run copies; None where the model is made by code."""
        return self.files[0] if "sha256" in self.record else None


def locate(args: config_lib.Model) -> ModelCode:
    """Finds the code of a model, without running it.

    Raises:
      InputError: there is no such code; or it is not what run.json recorded.
    """
    if args.name in MODELS:
        return ModelCode(name=args.name, where="models/", load=lambda: MODELS[args.name])
    if args.name.endswith(".keras"):
        code = _saved(args)
    elif ":" in args.name:
        code = _module(args)
    else:
        raise unknown_name(
            _KEY,
            args.name,
            MODELS,
            otherwise="Correct it in the config file or on the command line, add the model to MODELS in "
            "models/registry.py, or name a function of your own as module:function.",
        )
    _require_recorded(code, args.recorded)
    return code


def as_recorded(experiment: Experiment, recorded: Mapping, workdir: pathlib.Path) -> Experiment:
    """Returns the experiment with what the run in `workdir` recorded of its model's code."""
    if recorded.get("name") != experiment.model.name:
        return experiment
    model = dataclasses.replace(experiment.model, recorded=recorded, workdir=workdir)
    return dataclasses.replace(experiment, model=model)


def _require_recorded(code: ModelCode, recorded: Mapping) -> None:
    if recorded.get("name") != code.name:
        return
    for change in _changes(recorded, code.record):
        raise InputError(
            f"{_KEY}={code.name}",
            received=change,
            expected="the code that the run began with, whose digest run.json holds; nothing was imported",
            action="Put that version back, in its folder or in one of PYTHONPATH, or train in an empty "
            "--workdir.",
        )


def _changes(was: Mapping, is_: Mapping) -> Iterator[str]:
    if was.get("version") != is_.get("version"):
        was_version = f"{was.get('package')} {was.get('version')}"
        yield f"{is_.get('package')} {is_.get('version')}, where it was {was_version}"
    if WEIGHTS in was and WEIGHTS in is_ and was[WEIGHTS] != is_[WEIGHTS]:
        yield f"other first weights, SHA-256 {_short(is_[WEIGHTS])}, where it was {_short(was[WEIGHTS])}"
    if was.get("sha256") != is_.get("sha256"):
        yield f"another file, SHA-256 {_short(is_.get('sha256'))}, where it was {_short(was.get('sha256'))}"
    before, now = was.get("files") or {}, is_.get("files") or {}
    for name in sorted({*before, *now}):
        if name not in now:
            yield f"{name} is not imported any more"
        elif name not in before:
            yield f"{name} is imported, and was not"
        elif before[name] != now[name]:
            yield f"{name} has changed: SHA-256 {_short(now[name])}, where it was {_short(before[name])}"


def _short(digest: object) -> str:
    return f"{str(digest)[:12]}…"


# --- A module: an own file, or a library.


def _module(args: config_lib.Model) -> ModelCode:
    module, _, attribute = args.name.partition(":")
    parts = (*module.split("."), *attribute.split("."))
    if module.endswith(".py") or not all(part.isidentifier() for part in parts):
        written = module.removesuffix(".py").strip("./").replace("/", ".")
        raise InputError(
            _KEY,
            received=repr(args.name),
            expected="package.module:function, names that Python can import",
            action=f"Write {written or 'module'}:{attribute or 'function'}; its folder may be in PYTHONPATH.",
        )
    folder, file = _found(module, args)
    found = _distribution(module.partition(".")[0], folder)
    load = functools.partial(_function, args.name, folder, file)
    if found:
        record = {"name": args.name, "package": found.name, "version": found.version, **_weights(args)}
        where = f"{found.name} {found.version}"
        return ModelCode(name=args.name, where=where, load=load, record=record, is_library=True)
    digests = _digests(folder, module)
    return ModelCode(
        name=args.name,
        where=str(file),
        load=load,
        record={"name": args.name, "folder": str(folder), "files": digests},
        files=tuple(folder / name for name in digests),
    )


def _weights(args: config_lib.Model) -> dict[str, str]:
    """The digest of the file that gives keras.applications its first weights, where there is one."""
    file = pathlib.Path(str(args.options.get(WEIGHTS, "")))
    return {WEIGHTS: files.sha256(file)} if file.is_file() else {}


def without_first_weights(args: config_lib.Model) -> config_lib.Model:
    """Returns what builds the same model where a checkpoint gives the weights: no file of them is needed."""
    if not args.name.startswith("keras.applications:"):
        return args
    options = {name: value for name, value in args.options.items() if name != WEIGHTS}
    return dataclasses.replace(args, options=options)


def _found(module: str, args: config_lib.Model) -> tuple[pathlib.Path, pathlib.Path]:
    """The folder from which a module is imported, and its file."""
    first = [pathlib.Path(str(each)) for each in (args.recorded.get("folder"), args.folder) if each]
    for folder in dict.fromkeys([*first, *_folders()]):
        if file := _file_of(folder, module):
            return folder, file
    top = module.partition(".")[0]
    if top in _OPTIONAL:
        raise InputError(
            f"{_KEY}={args.name}",
            received=f"{_OPTIONAL[top]} is not installed",
            expected="the optional packages for models",
            action="Install them: pip install -r requirements/models.txt, or 'penstock[models]'.",
        )
    places = ", ".join(map(str, dict.fromkeys([*first, pathlib.Path.cwd()])))
    raise InputError(
        f"{_KEY}={args.name}",
        received=f"no module {module}",
        expected=f"{module.replace('.', '/')}.py in {places}, or in a folder of PYTHONPATH",
        action="Correct the name, or put the file's folder back or into PYTHONPATH."
        if args.recorded
        else "Correct the name, or put the file's folder into PYTHONPATH.",
    )


def _folders() -> list[pathlib.Path]:
    """Where Python finds what is not its own: the working directory, PYTHONPATH, what is installed."""
    found = [pathlib.Path.cwd(), *(pathlib.Path(each or ".").resolve() for each in sys.path)]
    return [each for each in dict.fromkeys(found) if each not in _NOT_OWN]


def _file_of(folder: pathlib.Path, module: str) -> pathlib.Path | None:
    path = folder.joinpath(*module.split("."))
    choices = (path / "__init__.py", path.with_name(f"{path.name}.py"))  # as Python chooses
    return next((each for each in choices if each.is_file()), None)


def _distribution(package: str, folder: pathlib.Path) -> importlib.metadata.Distribution | None:
    """The installed distribution that a package of `folder` belongs to; None where nothing installed it."""
    here = [str(folder)]
    named = importlib.metadata.distributions(name=package.replace("_", "-"), path=here)
    return next(
        (each for each in (*named, *importlib.metadata.distributions(path=here)) if _has(each, package)), None
    )


def _has(distribution: importlib.metadata.Distribution, package: str) -> bool:
    tops = (distribution.read_text("top_level.txt") or "").split()
    return package in (tops or {str(each).partition("/")[0] for each in distribution.files or ()})


def _digests(folder: pathlib.Path, module: str) -> dict[str, str]:
    """SHA-256 of a module's file and of all in the folder that it imports, by path below the folder.

    Imports are read, not run: a module that is imported by a name made at run time is not seen.
    """
    ahead, found = [module], {}
    while ahead:
        name = ahead.pop()
        parent, _, _ = name.rpartition(".")
        ahead += [parent] if parent else []
        file = _file_of(folder, name)
        if file is None or str(file.relative_to(folder)) in found:
            continue
        found[str(file.relative_to(folder))] = files.sha256(file)
        imported = [each for each in _imports(file, name) if each.partition(".")[0] not in _OURS]
        _require_beside(folder, file, {each.partition(".")[0] for each in imported})
        ahead += imported
    return dict(sorted(found.items()))


def _require_beside(folder: pathlib.Path, file: pathlib.Path, packages: Set[str]) -> None:
    """Raises InputError for an import of own code elsewhere: another process might not find it."""
    others = [each for each in _folders() if each not in (folder, _ROOT, *_INSTALLED)]
    for package in sorted(packages - sys.stdlib_module_names):
        if _file_of(folder, package) or (folder / package).is_dir():
            continue
        found = [each for each in others if _file_of(each, package) and not _distribution(package, each)]
        if found:
            raise InputError(
                f"model code {file}",
                received=f"an import of {package} in {found[0]}",
                expected=f"modules in {folder}, whose digests run.json holds, or installed libraries",
                action=f"Put {package} there, or install it.",
            )


def _imports(file: pathlib.Path, module: str) -> Iterator[str]:
    """The modules that a file imports, and perhaps names in them, anywhere in its code."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise _broken(file, getattr(error, "lineno", None) or 1, error) from None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*filter(None, above), *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _function(name: str, folder: pathlib.Path, file: pathlib.Path) -> Callable[..., object]:
    """Imports the module and returns its function or class."""
    module, _, attribute = name.partition(":")
    _make_importable(folder, module.partition(".")[0])
    _require_visible(name, folder, file)
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        raise _failed_import(name, file, error) from None
    places = [imported, *([imported.models] if module == "keras_hub" else [])]
    found = [each for each in (_attribute(place, attribute) for place in places) if each is not None]
    if found and callable(found[0]) and not isinstance(found[0], keras.Layer):
        return found[0]
    known = [each for place in places for each in vars(place) if callable(getattr(place, each))]
    raise InputError(
        f"{_KEY}={name}",
        received=f"a {type(found[0]).__name__}" if found else f"no {attribute} in {file}",
        expected="a function or a class that returns a keras.Model",
        action=did_you_mean(attribute, known, otherwise="Correct the name.", form=f"{module}:{{}}"),
    )


def _attribute(place: object, path: str) -> object:
    return functools.reduce(lambda of, part: getattr(of, part, None), path.split("."), place)


def _make_importable(folder: pathlib.Path, package: str) -> None:
    """Lets Python find an own module, last: it may hide nothing that Penstock or a library imports."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()  # the file may be younger than this process
    own, held = str(folder / package), getattr(sys.modules.get(package), "__path__", None)
    if package == "models" and held is not None and own not in held:
        held.append(own)  # beside ours, as pipeline/__init__.py does where a command starts


def _require_visible(name: str, folder: pathlib.Path, file: pathlib.Path) -> None:
    """Raises InputError where Python would import, and run, another module of that name."""
    top = name.partition(":")[0].partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module that was made by hand
        spec = None
    places = list((spec.submodule_search_locations or [spec.origin]) if spec else [])
    own = folder / top if (folder / top).is_dir() else file
    if own.resolve() not in [pathlib.Path(each or "").resolve() for each in places]:
        raise InputError(
            f"{_KEY}={name}",
            received=f"another module {top}, {places[0] if places else 'of this process'}",
            expected=f"{file}",
            action="Give your file, or its package, a name that no other module has.",
        )


def _failed_import(name: str, file: pathlib.Path, error: BaseException) -> InputError:
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "importlib" not in each.filename]
    own = [each for each in frames if pathlib.Path(each.filename).is_relative_to(file.parent)]
    if isinstance(error, SyntaxError) and error.filename:
        return _broken(pathlib.Path(error.filename), error.lineno or 1, error)
    return _broken(
        pathlib.Path(own[-1].filename) if own else file, own[-1].lineno if own else 1, error, name=name
    )


def _broken(file: pathlib.Path, line: int, error: BaseException, *, name: str = "") -> InputError:
    said = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
    return InputError(
        f"{_KEY}={name}" if name else f"model code {file}",
        received=f"{type(error).__name__}: {said}",
        expected="a module that can be imported",
        action=f"Correct {file}, line {line}.",
    )


# --- A `.keras` file.


def _saved(args: config_lib.Model) -> ModelCode:
    file = _keras_file(args)
    digest = files.sha256(file)
    _require_harmless(args.name, file)
    return ModelCode(
        name=args.name,
        where=str(file),
        load=lambda: functools.partial(_loaded, args.name, file),
        record={"name": args.name, "file": str(file), "sha256": digest},
        files=(file,),
    )


def _keras_file(args: config_lib.Model) -> pathlib.Path:
    """A run's own copy where it has one, else the file in the working directory or beside the config."""
    copies = [Workdir(args.workdir).keras_file] if args.recorded and args.workdir else []
    places = [*copies, pathlib.Path(args.name), pathlib.Path(args.folder, args.name)]
    for place in places:
        if place.is_file():
            return place.absolute()
    raise InputError(
        f"{_KEY}={args.name}",
        received="no such file",
        expected="a .keras file, in the working directory or in the folder of the config",
        action="Correct the path.",
    )


def _require_harmless(name: str, file: pathlib.Path) -> None:
    """Raises InputError for a file that names code: loading it would import that, whatever it is by now."""
    try:
        with zipfile.ZipFile(file) as archive:
            config = json.loads(archive.read("config.json"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, RecursionError) as error:
        raise InputError(
            f"{_KEY}={name}",
            received=f"a file that is no Keras model ({' '.join(str(error).split())})",
            expected="a .keras file, as model.save() writes it",
            action="Save the model again with model.save('NAME.keras').",
        ) from None
    for module, of in sorted(_named_modules(config)):
        if module.partition(".")[0] not in _TRUSTED:
            raise InputError(
                f"{_KEY}={name}",
                received=f"a model with the class {of} of the module {module}",
                expected="classes of Keras alone: what else a .keras file names would be run unseen",
                action="Name a function that builds the model, or that loads this file, as module:function.",
            )


def _named_modules(config: object) -> Iterator[tuple[str, str]]:
    if isinstance(config, Mapping):
        if isinstance(config.get("module"), str) and "class_name" in config:
            yield config["module"], str(config["class_name"])
        elif config.get("registered_name") and ">" in str(config["registered_name"]):
            yield str(config["registered_name"]).partition(">")[0], str(config["class_name"])
        config = list(config.values())
    if isinstance(config, Sequence) and not isinstance(config, str):
        for each in config:
            yield from _named_modules(each)


def _loaded(name: str, file: pathlib.Path) -> keras.Model:
    try:
        return keras.saving.load_model(file, compile=False, safe_mode=True)
    except Exception as error:
        raise InputError(
            f"{_KEY}={name}",
            received=f"{type(error).__name__}: {' '.join(str(error).split())}",
            expected="a model that this Keras can load",
            action=f"Save {file} again with this version of Keras, {keras.__version__}.",
        ) from None

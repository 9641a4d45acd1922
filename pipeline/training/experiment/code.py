"""Code that a config names, as `package.module:name`: found, recorded by digest, imported as recorded.

Models, losses, optimizers, schedules and metrics are named this way. They may be Keras's, such as
`keras.losses:Huber`, from any installed library, or the user's own, in the folder of the config, the working
directory or PYTHONPATH. Finding code runs nothing: an own file is read as text, with every module beside it
that it imports. run.json holds what was found, so a fresh process imports the same or says what changed. No
TensorFlow, no Keras.
"""

import ast
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import itertools
import pathlib
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping

from pipeline.base import files
from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.own_code import line_of, naming_line, one_line
from pipeline.training.experiment.code_import import broken, file_of, loaded, places_of
from pipeline.training.experiment.config import ANYWHERE, Experiment, Place

_FORM = "package.module:name, names that Python can import"
_OPTIONAL = {"keras_hub": "keras-hub", "keras_rs": "keras-rs"}  # packages of the extra `models`
# The module in which a library's names are searched that are given without a module.
_CLASSES = {"keras_hub": "keras_hub.models"}
_OURS = frozenset({"pipeline", "beam_jobs", "penstock"})
_NOT_OWN = tuple(pathlib.Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(
    pathlib.Path(each).resolve()
    for each in (
        *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    )
)
_ROOT = pathlib.Path(__file__).parents[3]  # root folder of Penstock


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """The code that a name stands for, found but not yet run.

    Attributes:
      name: the name in the config, without arguments.
      key: the key that holds the name, such as `--config.loss.name`.
      where: the place to correct it, for errors.
      record: what run.json says about it; empty for a model of the registry, whose version is Penstock's.
      load: function () → the function or class. It runs the code.
      files: own files, which `owns` looks up; empty: the files beside the function.
      is_library: whether it is a library's, so that the user cannot correct it.
    """

    name: str
    key: str
    where: str
    load: Callable[[], Callable[..., object]]
    record: Mapping[str, object] = dataclasses.field(default_factory=dict)
    files: tuple[pathlib.Path, ...] = ()
    is_library: bool = False

    @property
    def thing(self) -> str:
        """The name of the code in errors."""
        return f"{self.key}={self.name}"

    def owns(self, file: str) -> bool:
        """Returns whether a file is part of the code, so that errors may point to it."""
        if self.files:
            return pathlib.Path(file) in self.files
        written = inspect.getsourcefile(inspect.unwrap(self.load()))
        return pathlib.Path(file).parent == pathlib.Path(written or "").parent

    @property
    def keras_file(self) -> pathlib.Path | None:
        """The `.keras` file, which a run copies; None where a model is made by code."""
        return self.files[0] if "sha256" in self.record else None


def is_named(name: str) -> bool:
    """Returns whether the name is a name of code, and not one of Penstock's own names."""
    return ":" in name


def find(name: str, *, key: str, place: Place = ANYWHERE, more: Mapping[str, object] | None = None) -> Code:
    """Finds the code that `package.module:name` names, without running it.

    Args:
      key: the key that holds the name, such as `--config.loss.name`, for errors.
      more: further entries about it for run.json.

    Raises:
      InputError: there is no such module, or it is not what run.json recorded.
    """
    module, _, attribute = name.partition(":")
    parts = (*module.split("."), *attribute.split("."))
    if module.endswith(".py") or not all(part.isidentifier() for part in parts):
        written = module.removesuffix(".py").strip("./").replace("/", ".")
        raise InputError(
            key,
            received=repr(name),
            expected=_FORM,
            action=f"Write {written or 'module'}:{attribute or 'function'}; its folder may be in PYTHONPATH.",
        )
    thing, module = f"{key}={name}", _CLASSES.get(module, module)
    folder, file = _found(module, thing, place, place.recorded.get(name, {}).get("folder"))
    library = _distribution(module.partition(".")[0], folder)
    digests = {} if library else _digests(folder, module)
    of = (
        {"package": library.name, "version": library.version}
        if library
        else {"folder": str(folder), "files": digests}
    )
    code = Code(
        name=name,
        key=key,
        where=f"{library.name} {library.version}" if library else str(file),
        load=lambda: loaded(module, attribute, thing, folder, file, digests),
        record={**of, **(more or {})},
        files=tuple(folder / each for each in digests),
        is_library=bool(library),
    )
    require_recorded(code, place)
    return code


def resolve(name: str, *, key: str, library: str = "", place: Place = ANYWHERE) -> Callable:
    """Imports the function or class of a name; `library` is the module of a name without one.

    Raises:
      InputError: there is none, it is not what run.json recorded, or importing it fails.
    """
    whole = name if is_named(name) or not library else f"{library}:{name}"
    return find(whole, key=key, place=place).load()


def records(experiment: Experiment) -> dict[str, Mapping[str, object]]:
    """The entries of run.json about the code of loss, optimizer, schedule and metrics, by name; nothing is
    run.

    Raises:
      InputError: some of it is not there, or not as it was recorded.
    """
    optimizer = experiment.optimizer
    texts = [
        ("--config.loss.name", experiment.own_loss.name),
        ("--config.optimizer.name", optimizer.name),
        ("--config.optimizer.schedule", optimizer.schedule),
        *(("--config.evaluation.metrics", each) for each in experiment.evaluation.metrics),
    ]
    names = {call(text, key=key)[0]: key for key, text in texts}
    place = experiment.optimizer.place
    return {name: find(name, key=key, place=place).record for name, key in names.items() if is_named(name)}


def require_recorded(code: Code, place: Place) -> None:
    """Raises InputError where the code differs from what run.json says about it."""
    for change in _changes(place.recorded.get(code.name, code.record), code.record):
        raise InputError(
            code.thing,
            received=change,
            expected="the code that the run began with, whose digest run.json holds; nothing was imported",
            action="Put that version back, in its folder or in one of PYTHONPATH, or train in an empty "
            "--workdir.",
        )


def _changes(was: Mapping, is_: Mapping) -> Iterator[str]:
    if was.get("version") != is_.get("version"):
        was_version = f"{was.get('package')} {was.get('version')}"
        yield f"{is_.get('package')} {is_.get('version')}, where it was {was_version}"
    before, now = was.get("weights"), is_.get("weights")
    if before and now and before != now:
        yield f"other first weights, SHA-256 {_short(now)}, where it was {_short(before)}"
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


def _found(module: str, thing: str, place: Place, recorded: object) -> tuple[pathlib.Path, pathlib.Path]:
    """The folder from which a module is imported, and its file."""
    first = [pathlib.Path(str(each)) for each in (recorded, place.folder) if each]
    for folder in dict.fromkeys([*first, *_folders()]):
        if file := file_of(folder, module):
            return folder, file
    top = module.partition(".")[0]
    if top in _OPTIONAL:
        raise InputError(
            thing,
            received=f"a Python environment without {_OPTIONAL[top]}",
            expected="the optional packages for models",
            action="Install them: pip install -r requirements/models.txt, or 'penstock[models]'.",
        )
    places = ", ".join(map(str, dict.fromkeys([*first, pathlib.Path.cwd()])))
    put = "put the file's folder back or into" if recorded else "put the file's folder into"
    raise InputError(
        thing,
        received=f"no module {module}",
        expected=f"{module.replace('.', '/')}.py in {places}, or in a folder of PYTHONPATH",
        action=f"Correct the name, or {put} PYTHONPATH.",
    )


def _folders() -> list[pathlib.Path]:
    """The folders in which Python finds modules that are not its own: the working directory, PYTHONPATH, and
    installed packages.
    """
    found = [pathlib.Path.cwd(), *(pathlib.Path(each or ".").resolve() for each in sys.path)]
    return [each for each in dict.fromkeys(found) if each not in _NOT_OWN]


def _compiled_of(folder: pathlib.Path, module: str) -> pathlib.Path | None:
    """A module without a source: bytecode, or an extension in C."""
    path = folder.joinpath(*module.split("."))
    endings = (*importlib.machinery.EXTENSION_SUFFIXES, *importlib.machinery.BYTECODE_SUFFIXES)
    choices = (
        each for end in endings for each in (path / f"__init__{end}", path.with_name(f"{path.name}{end}"))
    )
    return next((each for each in choices if each.is_file()), None)


def _distribution(package: str, folder: pathlib.Path) -> importlib.metadata.Distribution | None:
    """The installed distribution that a package of `folder` belongs to; None where nothing installed it."""
    here = [str(folder)]
    named = importlib.metadata.distributions(name=package.replace("_", "-"), path=here)
    among = (*named, *importlib.metadata.distributions(path=here))
    return next((each for each in among if _has(each, package) and _is_installed(each, folder)), None)


def _is_installed(distribution: importlib.metadata.Distribution, folder: pathlib.Path) -> bool:
    """Returns whether an installer copied the package there; `pip install -e` leaves a *.egg-info beside own
    code.
    """
    return folder.resolve() in _INSTALLED or distribution.read_text("RECORD") is not None


def is_library(package: str) -> bool:
    """Returns whether what Python imports by the name of a package is an installed library."""
    places = places_of(package)
    return bool(places) and _distribution(package, places[0].parent) is not None


def is_ours(module: str) -> bool:
    """Returns whether a module is a file of Penstock."""
    return file_of(_ROOT, module) is not None


def _has(distribution: importlib.metadata.Distribution, package: str) -> bool:
    tops = (distribution.read_text("top_level.txt") or "").split()
    return package in (tops or {str(each).partition("/")[0] for each in distribution.files or ()})


def _digests(folder: pathlib.Path, module: str) -> dict[str, str]:
    """SHA-256 of a module's file and of all files in the folder that it imports, by path below the folder.

    Imports are read, not run: a module that is imported by a name made at run time is not seen.
    """
    ahead, found = [module], {}
    while ahead:
        name = ahead.pop()
        if name.endswith(".*"):
            ahead += _modules_in(folder, name.removesuffix(".*"))
            continue
        parent, _, _ = name.rpartition(".")
        ahead += [parent] if parent else []
        file = file_of(folder, name)
        if file is None:
            _require_source(folder, name)
        if file is None or str(file.relative_to(folder)) in found:
            continue
        found[str(file.relative_to(folder))] = files.sha256(file)
        imported = [each for each in _imports(file, name) if _is_own(each, folder)]
        _require_beside(folder, file, imported)
        ahead += imported
    return dict(sorted(found.items()))


def _is_own(module: str, folder: pathlib.Path) -> bool:
    top = module.partition(".")[0]
    return top not in _OURS and not (folder.resolve() in _INSTALLED and _distribution(top, folder))


def _modules_in(folder: pathlib.Path, package: str) -> list[str]:
    """All that `from package import *` may import: `__all__` can name any module in it."""
    inside = sorted(folder.joinpath(*package.split(".")).glob("*"))
    names = dict.fromkeys(each.name.partition(".")[0] for each in inside)
    return [f"{package}.{name}" for name in names if name.isidentifier() and not name.startswith("__")]


def _require_source(folder: pathlib.Path, module: str) -> None:
    if compiled := _compiled_of(folder, module):
        raise InputError(
            f"own code {compiled}",
            received="a module without its source",
            expected=f"{module.replace('.', '/')}.py, which can be read before it is run",
            action="Put the source there, or install the module as a library.",
        )


def _require_beside(folder: pathlib.Path, file: pathlib.Path, modules: Iterable[str]) -> None:
    """Raises InputError for an import of own code elsewhere: another process might not find it."""
    others = [each for each in _folders() if each not in (folder, _ROOT, *_INSTALLED)]
    wanted = {each for name in modules for each in itertools.accumulate(name.split("."), "{}.{}".format)}
    for module in sorted(wanted):
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or file_of(folder, top) or file_of(folder, module):
            continue
        for other in others:
            is_there = file_of(other, module) or _compiled_of(other, module)
            if is_there and not _distribution(top, other):
                raise InputError(
                    f"own code {file}",
                    received=f"an import of {module} in {other}",
                    expected=f"modules in {folder}, whose digests run.json holds, or installed libraries",
                    action=f"Put {module} there, or install it.",
                )


def _imports(file: pathlib.Path, module: str) -> Iterator[str]:
    """The modules that a file imports, anywhere in its code; some may be names in modules instead."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise broken(file, getattr(error, "lineno", None) or 1, error) from None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: max(len(parts) - node.level + 1, 0)] if node.level else []
            base = ".".join([*filter(None, above), *([node.module] if node.module else [])])
            yield from filter(None, [base])  # None for a relative import in a module without a package
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


# --- Arguments of a function or class.


def call(text: str, *, key: str) -> tuple[str, Mapping[str, object]]:
    """Takes `name(argument=value, …)` apart: the name, and literal values by their names.

    Raises:
      InputError: it is not such a text.
    """
    name, bracket, rest = text.partition("(")
    if not bracket:
        return text, {}
    try:
        parsed = ast.parse(f"f({rest}", mode="eval").body
        if (
            not isinstance(parsed, ast.Call)
            or parsed.args
            or any(each.arg is None for each in parsed.keywords)
        ):
            raise ValueError
        return name, {each.arg: ast.literal_eval(each.value) for each in parsed.keywords}
    except (SyntaxError, ValueError):
        raise InputError(
            key,
            received=repr(text),
            expected="a name, or a name with values of its arguments, as f(threshold=0.5, average='macro')",
            action="Correct it in the config file or on the command line.",
        ) from None


def no_arguments(text: str, *, key: str, action: str) -> InputError:
    """Returns the error of arguments after one of Penstock's own names, which takes none."""
    name = text.partition("(")[0]
    return InputError(key, received=repr(text), expected=f"{name} without arguments", action=action)


def build(made: Callable, arguments: Mapping[str, object], *, name: str, key: str) -> object:
    """Calls a class or function with its arguments; raises InputError if it refuses them, or fails."""
    thing, action = f"{key}={name}", "Correct the arguments."
    with naming_line(
        thing, made, expected="code that can be run", otherwise=action, more=", or the arguments"
    ):
        try:
            return made(**arguments)
        except (TypeError, ValueError) as error:
            where = line_of(made, error)
            raise InputError(
                thing,
                received=f"arguments {_shown(arguments)}, of which it says: {one_line(error)}",
                expected="arguments that it takes",
                action=f"Correct the arguments, or {where}." if where else action,
            ) from None


def _shown(arguments: Mapping[str, object]) -> str:
    """The arguments as a dict; of an object the name of its class, as its address would tell nothing."""
    plain = (str, int, float, bool, tuple, list, dict, type(None))
    texts = (
        f"{name!r}: {value!r}" if isinstance(value, plain) else f"{name!r}: a {type(value).__name__}"
        for name, value in arguments.items()
    )
    return f"{{{', '.join(texts)}}}"


def names_of(found: Callable) -> str:
    """The name of a function; or the names of a class and its bases, because a subclass of
    `SparseCategoricalAccuracy` takes what that class takes, whatever it is called.
    """
    classes = inspect.getmro(found)[:-1] if inspect.isclass(found) else (found,)
    return " ".join(each.__name__ for each in classes)


def build_offered(
    made: Callable, given: Mapping[str, object], offered: Mapping[str, object], *, name: str, key: str
) -> object:
    """Calls a class or function with the arguments that are `given`, and with those `offered` that it
    takes.
    """
    require_arguments(made, given, name=name, key=key)
    taken = inspect.signature(made).parameters
    arguments = {argument: value for argument, value in offered.items() if argument in taken}
    return build(made, {**arguments, **given}, name=name, key=key)


def require_arguments(found: Callable, arguments: Mapping[str, object], *, name: str, key: str) -> None:
    """Raises InputError for arguments that the function or class does not have."""
    parameters = inspect.signature(found).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return
    for argument in arguments:
        if argument not in parameters:
            action = did_you_mean(argument, list(parameters), otherwise="Leave it out.")
            raise InputError(
                f"{key}={name}",
                received=f"the argument {argument!r}",
                expected=f"some of {', '.join(parameters)}" if parameters else "no arguments",
                action=action,
            )

"""Code that a config names, as `package.module:attribute`: found, imported, and recorded.

Losses, optimizers, schedules and metrics are named so: those of Keras, such as `keras.losses:Huber`, those of
any installed library, and own ones, in a folder of PYTHONPATH or the working directory.
"""

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import pathlib
import sys
import traceback
from collections.abc import Callable, Mapping

from pipeline.base import files
from pipeline.base.errors import InputError, did_you_mean
from pipeline.training.experiment.config import Experiment

_FORM = "package.module:name, which Python can import"


def is_named(name: str) -> bool:
    """Returns whether the name is one of code, not one of Penstock's own."""
    return ":" in name


def resolve(name: str, *, key: str, library: str = "") -> Callable:
    """Imports what `package.module:attribute` names: a function or a class.

    Args:
      key: where it stands, such as `--config.loss.name`, for the error.
      library: the module of a name without one.

    Raises:
      InputError: there is no such module or attribute, it cannot be called, or importing it fails.
    """
    module, attribute = _parts(name if is_named(name) or not library else f"{library}:{name}", key)
    importlib.invalidate_caches()  # the file may be younger than this process
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _broken(name, key, error) from None
        raise _error(
            name,
            key,
            f"no module {error.name}",
            "Correct the name, or put its folder into PYTHONPATH.",
        ) from None
    except (Exception, SystemExit) as error:
        raise _broken(name, key, error) from None
    found = functools.reduce(lambda of, part: getattr(of, part, None), attribute.split("."), imported)
    if callable(found):
        return found
    known = [each for each, value in vars(imported).items() if callable(value) and not each.startswith("_")]
    otherwise = "Correct the name."
    raise _error(
        name,
        key,
        f"no function or class {attribute} in {module}",
        did_you_mean(attribute, known, otherwise=otherwise, form=f"{module}:{{}}"),
    )


def record(name: str, *, key: str) -> Mapping[str, str]:
    """What run.json says of the code: the version of its package, or the SHA-256 of its file.

    Raises:
      InputError: there is no such module. It is found, not run.
    """
    module, _ = _parts(name, key)
    package = module.partition(".")[0]
    packages = importlib.metadata.packages_distributions().get(package)
    if packages:
        return {"name": name, "package": packages[0], "version": importlib.metadata.version(packages[0])}
    spec = importlib.util.find_spec(package)
    origin = spec and importlib.util.find_spec(module)
    if origin is None or origin.origin is None:
        raise _error(name, key, f"no module {module}", "Correct the name, or put its folder into PYTHONPATH.")
    return {"name": name, "file": origin.origin, "sha256": files.sha256(pathlib.Path(origin.origin))}


def records(experiment: Experiment) -> dict[str, Mapping[str, str]]:
    """What run.json says of all code that a config names, by its key."""
    places = {
        "loss.name": (experiment.own_loss.name,),
        "optimizer.name": (experiment.optimizer.name,),
        "optimizer.schedule": (experiment.optimizer.schedule,),
        "evaluation.metrics": experiment.evaluation.metrics,
    }
    names = [
        (f"--config.{key}", name)
        for key, texts in places.items()
        for name in (call(text, key=f"--config.{key}")[0] for text in texts)
    ]
    return {f"{key} {name}": record(name, key=key) for key, name in names if is_named(name)}


def require_recorded(experiment: Experiment, recorded: Mapping[str, Mapping[str, str]]) -> None:
    """Raises InputError where code is not what run.json says of it; nothing of it is run.

    Where the config names other code, that is another error.
    """
    for key, found in records(experiment).items():
        was = recorded.get(key, found)
        for field in ("version", "sha256"):
            if was.get(field) != found.get(field):
                raise InputError(
                    key.replace(" ", "="),
                    received=f"{field} {found.get(field)}, in {found.get('file') or found.get('package')}",
                    expected=f"{was.get(field)}, as when the run began",
                    action="Put that version back, or train in an empty --workdir.",
                )


def call(text: str, *, key: str) -> tuple[str, Mapping[str, object]]:
    """Takes `name(argument=value, …)` apart: the name, and literal values by their names.

    Raises:
      InputError: it is no such text.
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


def build(made: Callable, arguments: Mapping[str, object], *, name: str, key: str) -> object:
    """Calls a class or function with its arguments; raises InputError where it refuses them."""
    try:
        return made(**arguments)
    except (TypeError, ValueError) as error:
        raise _error(
            name,
            key,
            f"arguments {dict(arguments)}, of which it says: {' '.join(str(error).split())}",
            "Correct the arguments.",
        ) from None


def build_offered(
    made: Callable, given: Mapping[str, object], offered: Mapping[str, object], *, name: str, key: str
) -> object:
    """Calls a class or function with what is given, and with what is offered as far as it takes that."""
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
                expected=f"some of {', '.join(parameters)}",
                action=action,
            )


def _parts(name: str, key: str) -> tuple[str, str]:
    module, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise _error(name, key, "no such name", f"Write it as {_FORM}.")
    return module, attribute


def _broken(name: str, key: str, error: BaseException) -> InputError:
    frames = traceback.extract_tb(error.__traceback__)
    library = tuple({str(pathlib.Path(importlib.__file__).parent), "<frozen", sys.prefix, __file__})
    own = [each for each in frames if not each.filename.startswith(library)]
    where = f"{own[-1].filename}, line {own[-1].lineno}" if own else "its module"
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}, line {error.lineno}"
    said = " ".join(str(error).split())
    return _error(name, key, f"a module that fails with {type(error).__name__}: {said}", f"Correct {where}.")


def _error(name: str, key: str, received: str, action: str) -> InputError:
    return InputError(f"{key}={name}", received=received, expected=_FORM, action=action)

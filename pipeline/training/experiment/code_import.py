"""Imports own code as it was recorded: from these files, with these digests, and no other of that name."""

import dataclasses
import functools
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from collections.abc import Callable, Mapping

from pipeline.base.errors import InputError, did_you_mean
from pipeline.base.own_code import frame_below, one_line


def loaded(
    module: str,
    attribute: str,
    thing: str,
    folder: pathlib.Path,
    file: pathlib.Path,
    digests: Mapping[str, str],
) -> Callable[..., object]:
    """Imports the module, and of own code only what has these digests; returns its function or class."""
    _make_importable(folder, module.partition(".")[0])
    own = _Recorded(folder=folder, digests={_module_of(path): digest for path, digest in digests.items()})
    for name in own.digests or (module,):
        _require_visible(name, thing, folder)
    own.require_held(thing)
    if digests and own not in sys.meta_path:
        sys.meta_path.insert(0, own)
    try:
        imported = importlib.import_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed_import(thing, file, error) from None
    found = functools.reduce(lambda of, part: getattr(of, part, None), attribute.split("."), imported)
    if callable(found) and (hasattr(found, "__name__") or isinstance(found, functools.partial)):
        return found
    known = [each for each, value in vars(imported).items() if callable(value) and not each.startswith("_")]
    raise InputError(
        thing,
        received=f"no {attribute} in {file}" if found is None else f"a {type(found).__name__}",
        expected="a function or a class",
        action=did_you_mean(attribute, known, otherwise="Correct the name.", form=f"{module}:{{}}"),
    )


def _make_importable(folder: pathlib.Path, package: str) -> None:
    """Lets Python find an own module, last: it may hide nothing that Penstock or a library imports."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()  # the file may be younger than this process
    own, held = str(folder / package), getattr(sys.modules.get(package), "__path__", None)
    if package == "models" and held is not None and own not in held:
        held.append(own)  # beside ours, as pipeline/__init__.py does where a command starts


def _require_visible(module: str, thing: str, folder: pathlib.Path) -> None:
    """Raises InputError where Python would import, and run, another module of that name."""
    top = module.partition(".")[0]
    own = file_of(folder, top)
    own = folder / top if own is None or own.name == "__init__.py" else own
    places = places_of(top)
    if own.resolve() not in places:
        raise _another(thing, top, places[0] if places else "of this process", file_of(folder, module))
    for place in places:  # several: a package without __init__.py, in more than one folder
        other = file_of(place.parent, module)
        if place != own.resolve() and other:
            raise _another(thing, module, other, file_of(folder, module))


def places_of(top: str) -> list[pathlib.Path]:
    """The file or the folders that Python imports for a name without a dot."""
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # a module that was made by hand
        spec = None
    places = list((spec.submodule_search_locations or [spec.origin]) if spec else [])
    return [pathlib.Path(each or "").resolve() for each in places]


def _another(thing: str, module: str, place: object, file: pathlib.Path | None) -> InputError:
    return InputError(
        thing,
        received=f"another module {module}, {place}",
        expected=f"{file}",
        action="Give your file, or its package, a name that no other module has.",
    )


def _module_of(path: str) -> str:
    return ".".join(pathlib.PurePath(path).with_suffix("").parts).removesuffix(".__init__")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Recorded(importlib.abc.MetaPathFinder):
    """Imports own modules as they were read: from these files, with these digests, without cached bytecode.

    Attributes:
      digests: SHA-256 by module.
    """

    folder: pathlib.Path
    digests: Mapping[str, str]

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = file_of(self.folder, fullname) if fullname in self.digests else None
        if file is None or str(self.folder) not in sys.path:
            return None
        loader = _Source(fullname, str(file), self.digests[fullname])
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)

    def require_held(self, thing: str) -> None:
        """Raises InputError where this process has imported other code by one of the names."""
        for module, digest in self.digests.items():
            held, file = sys.modules.get(module), file_of(self.folder, module)
            loader = getattr(getattr(held, "__spec__", None), "loader", None)
            place = getattr(held, "__file__", None)
            if place and file and pathlib.Path(place).resolve() != file.resolve():
                raise _another(thing, module, place, file)
            if isinstance(loader, _Source) and loader.digest != digest:
                raise _changed(file)


class _Source(importlib.machinery.SourceFileLoader):
    """Compiles a file if it has the digest, else raises InputError."""

    def __init__(self, fullname: str, path: str, digest: str) -> None:
        super().__init__(fullname, path)
        self.digest = digest

    def get_code(self, fullname: str) -> types.CodeType:
        text = self.get_data(self.path)
        if hashlib.sha256(text).hexdigest() != self.digest:
            raise _changed(self.path)
        return self.source_to_code(text, self.path)


def _changed(file: object) -> InputError:
    return InputError(
        f"own code {file}",
        received="a file that has changed since this process read it",
        expected="the same code until the process ends",
        action="Start the command, or the notebook's kernel, again.",
    )


def _failed_import(thing: str, file: pathlib.Path, error: BaseException) -> InputError:
    if isinstance(error, SyntaxError) and error.filename:
        return broken(pathlib.Path(error.filename), error.lineno or 1, error)
    own = frame_below(file.parent, error)
    where = (pathlib.Path(own.filename), own.lineno or 1) if own else (file, 1)
    return broken(*where, error, thing=thing)


def broken(file: pathlib.Path, line: int, error: BaseException, *, thing: str = "") -> InputError:
    said = error.msg if isinstance(error, SyntaxError) else one_line(error)
    return InputError(
        thing or f"own code {file}",
        received=f"{type(error).__name__}: {said}",
        expected="a module that can be imported",
        action=f"Correct {file}, line {line}.",
    )


def file_of(folder: pathlib.Path, module: str) -> pathlib.Path | None:
    path = folder.joinpath(*module.split("."))
    choices = (path / "__init__.py", path.with_name(f"{path.name}.py"))  # as Python chooses
    return next((each for each in choices if each.is_file()), None)

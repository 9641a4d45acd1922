"""What the files of a checkout import from each other, read from their source."""

import ast
import dataclasses
import functools
import pathlib
import subprocess
from collections.abc import Collection, Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("beam_jobs", "models", "penstock", "pipeline")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Import:
    """`module` is dotted; `eager` if it happens as soon as the file is imported."""

    module: str
    eager: bool


@dataclasses.dataclass(frozen=True)
class Checkout:
    """The Python files that git tracks under `root`, each read once."""

    root: pathlib.Path = ROOT

    @functools.cached_property
    def files(self) -> tuple[str, ...]:
        command = ["git", "ls-files", "*.py"]
        listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return tuple(path for path in listed.stdout.split() if (self.root / path).exists())

    @functools.cached_property
    def product(self) -> tuple[str, ...]:
        return tuple(path for path in self.files if path.startswith(tuple(f"{room}/" for room in PRODUCT)))

    @functools.cached_property
    def texts(self) -> Mapping[str, str]:
        return {path: (self.root / path).read_text() for path in self.files}

    @functools.cached_property
    def trees(self) -> Mapping[str, ast.Module]:
        return {path: ast.parse(text, filename=path) for path, text in self.texts.items()}

    @functools.cached_property
    def modules(self) -> Mapping[str, str]:
        """Path by dotted name."""
        return {module_of(path): path for path in self.files}

    @functools.cached_property
    def imports(self) -> Mapping[str, tuple[Import, ...]]:
        return {path: tuple(_walk(tree, eager=True)) for path, tree in self.trees.items()}

    def own(self, module: str) -> str | None:
        """Path of the file that `module`, or the name it ends in, comes from; None if it is not ours."""
        return self.modules.get(module) or self.modules.get(module.rpartition(".")[0])

    def ours(self, path: str, *, eager_only: bool = False) -> set[str]:
        """The files of ours that `path` imports, those inside its functions too."""
        chosen = (one for one in self.imports[path] if one.eager or not eager_only)
        return {self.own(one.module) for one in chosen} - {None, path}

    def is_command(self, path: str) -> bool:
        """Whether the file guards `__main__`, as no test does."""
        ifs = (node for node in self.trees[path].body if isinstance(node, ast.If))
        return any("__main__" in ast.unparse(node.test) for node in ifs)


HOUSE = Checkout()


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _walk(node: ast.AST, *, eager: bool) -> Iterator[Import]:
    """What stands under `if TYPE_CHECKING` is no import: nothing runs it."""
    if isinstance(node, ast.Import):
        yield from (Import(module=alias.name, eager=eager) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (Import(module=f"{node.module}.{alias.name}", eager=eager) for alias in node.names)
    typing_only = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    inside = eager and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in node.orelse if typing_only else ast.iter_child_nodes(node):
        yield from _walk(child, eager=inside)


def circles(arrows: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Groups of names that reach each other along `arrows`, each group and their list sorted."""
    reached = {name: _reached(name, arrows) for name in arrows}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached.get(other, ())))
        for name in arrows
        if name in reached[name]
    }
    return sorted(map(list, groups))


def _reached(name: str, arrows: Mapping[str, Collection[str]]) -> set[str]:
    found, ahead = set(), [name]
    while ahead:
        new = set(arrows.get(ahead.pop(), ())) - found
        found |= new
        ahead += new
    return found


def between_folders(arrows: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Arrows between the folders that hold the files themselves, of arrows between files."""
    return _between((folder_of(path), folder_of(other)) for path in arrows for other in arrows[path])


def between_siblings(arrows: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """Arrows between folders that stand in the same one, each with all that is below it."""
    return _between(_siblings(path, other) for path in arrows for other in arrows[path])


def _siblings(path: str, other: str) -> tuple[str, str]:
    """The topmost two different folders on the ways to two files; the same twice where a way ends before."""
    one, two = folder_of(path).split("/"), folder_of(other).split("/")
    shared = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
    return ("", "") if shared is None else ("/".join(one[: shared + 1]), "/".join(two[: shared + 1]))


def _between(pairs: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one, other in pairs:
        if one != other:
            found.setdefault(one, set()).add(other)
    return found

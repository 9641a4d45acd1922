"""What BUILD must say, derived from the imports: one target a file, its deps exactly what it imports.

A file named `*_test.py` is a py_test, one that guards `__main__` a py_binary, any other a py_library. A
target is named like its file. `python -m tests.house.build_file` rewrites BUILD, keeping the attributes that
cannot be derived (`data`, `tags`, …) and the lines above the first target.
"""

import ast
import dataclasses
import functools
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "BUILD"
HUBS = {"requirements.in": "@pypi//", "requirements/dev.in": "@pypi_dev//"}
# Whose environment has nothing of the others.
PEERS = ("benchmarks/peers/", "tests/soak/augmentation_peer.py")
PEERS_HUBS = {"requirements/peers.in": "@pypi_peers//"}

# Libraries whose import name is not the name they are installed by.
DISTRIBUTIONS = {
    "absl": "absl-py",
    "cv2": "opencv-python-headless",
    "google": "protobuf",
    "grpc": "grpcio",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "streaming": "mosaicml-streaming",
}
# Airflow's, Kubernetes' and Google's libraries fit neither our requirements nor each other.
ELSEWHERE = ("deploy/airflow/*", "tests/deploy/elsewhere/*")
DEVELOPMENT = ("tests/", "demo/", "benchmarks/")
DERIVED = ("name", "srcs", "args", "main_module", "deps")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """One rule of BUILD; `kept` holds the attributes that are not derived, as written."""

    rule: str
    name: str
    src: str
    deps: tuple[str, ...]
    kept: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Import:
    """`module` is dotted; `eager` if it happens as soon as the file is imported."""

    module: str
    eager: bool


class BuildError(Exception):
    """An import that no target can stand for."""


@functools.cache
def tracked() -> tuple[str, ...]:
    """Path of every Python file that git tracks, but for those that run in an environment of their own."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", *(f":!{path}" for path in ELSEWHERE)],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return tuple(path for path in listed if (ROOT / path).exists())


@functools.cache
def sources() -> dict[str, str]:
    """Path of every tracked Python file by dotted name of its module; no `__init__.py` without code."""
    return {_module(path): path for path in tracked() if not _is_package_without_code(path)}


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_package_without_code(path: str) -> bool:
    if not path.endswith("__init__.py"):
        return False
    return all(isinstance(node, ast.Expr) for node in _tree(path).body)  # its docstring, if anything


def name_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__")


@functools.cache
def rule_of(path: str) -> str:
    if path.endswith("_test.py"):
        return "py_test"
    guards_main = any(
        isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in _tree(path).body
    )
    return "py_binary" if guards_main else "py_library"


@functools.cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=path)


@functools.cache
def imports(path: str) -> tuple[Import, ...]:
    """What a file imports, and the modules that it starts by name with `python -m`."""
    return tuple(_walk(_tree(path), eager=True))


def _walk(node: ast.AST, *, eager: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(module=alias.name, eager=eager) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (Import(module=f"{node.module}.{alias.name}", eager=eager) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        path = sources().get(node.value, node.value)
        if path in sources().values() and rule_of(path) == "py_binary":
            yield Import(module=_module(path), eager=False)
    inside = eager and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, eager=inside)


def own(module: str) -> str | None:
    """Path of the file of ours that `module`, or the name it ends in, comes from; None if it is not ours."""
    return sources().get(module) or sources().get(module.rpartition(".")[0])


def ours(path: str, *, eager_only: bool = False) -> set[str]:
    """The files of ours that `path` imports."""
    chosen = (one for one in imports(path) if one.eager or not eager_only)
    return {own(one.module) for one in chosen} - {None, path}


def labels(path: str) -> tuple[str, ...]:
    """The deps of the target of `path`."""
    found = {_label(path, one.module) for one in imports(path)} - {None, f":{name_of(path)}"}
    if rule_of(path) == "py_test":
        found |= {"@pypi_dev//pytest", *_conftests(path)}  # these run the file, imported or not
    return tuple(sorted(found, key=lambda label: (label.startswith("@"), label)))


def _conftests(path: str) -> Iterator[str]:
    folders = map(str, pathlib.PurePath(path).parents)
    modules = (f"{folder.replace('/', '.')}.conftest" for folder in folders)
    return (f":{name_of(sources()[module])}" for module in modules if module in sources())


def _label(path: str, module: str) -> str | None:
    top = module.partition(".")[0]
    if own(module):
        return f":{name_of(own(module))}"
    if top in sys.stdlib_module_names:
        return None
    if (ROOT / top).is_dir():
        raise BuildError(f"{path} imports {module}, which is no file here")
    distribution = DISTRIBUTIONS.get(top, top.replace("_", "-"))
    for requirements, hub in (PEERS_HUBS if path.startswith(PEERS) else HUBS).items():
        if distribution in _declared(requirements):
            return hub + distribution.replace("-", "_")
    raise BuildError(f"{path} imports {top}: add '{distribution}' to {_file_for(path)}, then `make lock`")


def _file_for(path: str) -> str:
    if path.startswith(PEERS):
        return next(iter(PEERS_HUBS))
    return "requirements/dev.in" if path.startswith(DEVELOPMENT) else "requirements.in"


@functools.cache
def _declared(requirements: str) -> frozenset[str]:
    lines = (ROOT / requirements).read_text().splitlines()
    return frozenset(re.split(r"==|\[", line)[0].strip() for line in lines if line[:1].isalpha())


def derived() -> dict[str, Target]:
    """What BUILD must hold, by target name."""
    targets = (
        Target(rule=rule_of(path), name=name_of(path), src=path, deps=labels(path))
        for path in sources().values()
    )
    return {target.name: target for target in targets}


def written() -> dict[str, Target]:
    """What BUILD holds, by target name."""
    found: dict[str, Target] = {}

    def declare(rule: str, *, name: str, srcs: list[str], deps: tuple[str, ...] = (), **rest: object) -> None:
        if name in found or len(srcs) != 1:
            raise BuildError(f"BUILD, target {name}: expected one target of this name, with one file")
        kept = {key: value for key, value in rest.items() if key not in DERIVED}
        found[name] = Target(rule=rule, name=name, src=srcs[0], deps=tuple(deps), kept=kept)

    rules = {rule: functools.partial(declare, rule) for rule in ("py_library", "py_binary", "py_test")}
    # BUILD is Starlark, a dialect of Python: what it calls is all that is needed to read it.
    exec(BUILD.read_text(), {**rules, "load": _ignore, "package": _ignore, "exports_files": _ignore})
    return found


def _ignore(*unused: object, **unused_too: object) -> None:
    pass


def render(targets: Mapping[str, Target]) -> str:
    """The text of BUILD, as buildifier formats it."""
    return "\n".join(_render_target(targets[name]) for name in sorted(targets))


def _render_target(target: Target) -> str:
    attributes: dict[str, object] = {"name": target.name, "srcs": [target.src]}
    if target.rule == "py_test":
        attributes |= {"args": [target.src], "main_module": "pytest"}
    attributes |= dict(sorted(target.kept.items()))
    if target.deps:
        attributes["deps"] = list(target.deps)
    lines = (f"    {key} = {_literal(value)},\n" for key, value in attributes.items())
    return f"{target.rule}(\n{''.join(lines)})\n"


def _literal(value: object) -> str:
    if isinstance(value, list) and len(value) > 1:
        return "[\n" + "".join(f'        "{item}",\n' for item in value) + "    ]"
    return str(value).replace("'", '"') if isinstance(value, list) else f'"{value}"'


def rewrite() -> None:
    text = BUILD.read_text()
    heading = text[: text.find("\npy_")] if "\npy_" in text else text.rstrip("\n") + "\n"
    kept = {name: target.kept for name, target in written().items()}
    targets = {
        name: dataclasses.replace(target, kept=kept.get(name, {})) for name, target in derived().items()
    }
    BUILD.write_text(f"{heading}\n{render(targets)}")


if __name__ == "__main__":
    rewrite()

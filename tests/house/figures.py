"""How large the house is: modules, lines, functions, circles, tests.

`python -m tests.house.figures [--tree=DIR]` prints the figures of this checkout or of another one. The
product is `beam_jobs/`, `models/` and `pipeline/`. The lines of an `__init__.py` count, but it is no module.
`--names` lists the public names that no other file uses.
"""

import ast
import pathlib
import re
import statistics
import sys
from collections.abc import Iterator, Sequence

from tests.house import imports
from tests.house.imports import Checkout

Functions = ast.FunctionDef | ast.AsyncFunctionDef
SHORT = 60  # lines


def main(argv: Sequence[str]) -> None:
    trees = [argument.removeprefix("--tree=") for argument in argv if argument.startswith("--tree=")]
    house = Checkout(pathlib.Path(*trees) if trees else imports.ROOT)
    for name, value in figures(house):
        print(f"{name:<45} {value}")
    at_home = list(used_at_home_only(house))
    print(f"{'public names used only in their own module':<45} {len(at_home)}")
    if "--names" in argv:
        print(*at_home, sep="\n")


def figures(house: Checkout) -> Iterator[tuple[str, object]]:
    """Each figure with its name."""
    lines = {path: len(house.texts[path].splitlines()) for path in house.files}
    modules = {path: lines[path] for path in house.product if not path.endswith("__init__.py")}
    longest = max(modules, key=lambda path: modules[path])
    yield "product: modules", len(modules)
    yield "product: lines", sum(lines[path] for path in house.product)
    yield f"product: modules under {SHORT} lines", sum(length < SHORT for length in modules.values())
    yield "product: median of a module's lines", statistics.median(modules.values())
    yield "product: longest module", f"{modules[longest]} {longest}"
    lengths = [length for path in house.product for length in function_lengths(house.trees[path])]
    yield "product: functions", len(lengths)
    yield "product: median, 90th percentile, most lines", _spread(lengths)
    raw = [path for path in modules if "/configs/" not in path and "ConfigDict" in house.texts[path]]
    yield "product: modules that name ConfigDict", f"{len(raw)} beside configs"
    arrows = {path: house.ours(path) & set(house.product) for path in house.product}
    yield "circles: files", _circles(imports.circles(arrows))
    yield "circles: folders by their own files", _circles(imports.circles(imports.between_folders(arrows)))
    yield "circles: folders with all below them", _circles(imports.circles(imports.between_siblings(arrows)))
    yield "tests: files", sum(path.startswith("tests/") for path in house.files)
    yield "tests: lines", sum(lines[path] for path in house.files if path.startswith("tests/"))
    builds = [*house.root.glob("BUILD"), *house.root.glob("[!.]*/**/BUILD")]
    yield "BUILD: files", len(builds)
    yield "BUILD: lines", sum(len(path.read_text().splitlines()) for path in builds)


def _spread(lengths: Sequence[int]) -> str:
    tenths = statistics.quantiles(lengths, n=10)
    return f"{statistics.median(lengths):g}, {tenths[-1]:g}, {max(lengths)}"


def _circles(groups: Sequence[Sequence[str]]) -> str:
    return "\n  ".join([f"{len(groups)}", *(" ".join(group) for group in groups)])


def function_lengths(tree: ast.Module) -> Iterator[int]:
    """Lines of each function: from `def` to its end, less its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, Functions):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            text = first.end_lineno - first.lineno + 1 if is_text else 0
            yield node.end_lineno - node.lineno + 1 - text


def public_names(tree: ast.Module) -> Iterator[str]:
    """Functions, classes and constants at the top of a module that do not begin with an underscore."""
    for node in tree.body:
        if isinstance(node, Functions | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def used_at_home_only(house: Checkout) -> Iterator[str]:
    words = {path: set(re.findall(r"\w+", text)) for path, text in house.texts.items()}
    for path in house.product:
        for name in public_names(house.trees[path]):
            if not any(name in found for other, found in words.items() if other != path):
                yield f"{path}: {name}"


if __name__ == "__main__":
    main(sys.argv[1:])

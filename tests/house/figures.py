"""How long files and functions are, and which public names only their own module uses.

`python -m tests.house.figures` prints the figures of the checkout it runs in: run it in two to compare them.
`--names` lists the names. It reads the product's code only: `beam_jobs/`, `models/` and `pipeline/`. A name
is used if it occurs as a word in any other tracked Python file.
"""

import ast
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

PRODUCT = ("beam_jobs/", "models/", "pipeline/")
Functions = ast.FunctionDef | ast.AsyncFunctionDef


def tracked() -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], check=True, capture_output=True, text=True)
    return [pathlib.Path(line) for line in listed.stdout.splitlines() if pathlib.Path(line).exists()]


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


def used_at_home_only(texts: dict[pathlib.Path, str], product: Sequence[pathlib.Path]) -> Iterator[str]:
    words = {path: set(re.findall(r"\w+", text)) for path, text in texts.items()}
    for path in product:
        for name in public_names(ast.parse(texts[path])):
            if not any(name in found for other, found in words.items() if other != path):
                yield f"{path}: {name}"


def main(argv: Sequence[str]) -> None:
    texts = {path: path.read_text() for path in tracked()}
    product = [path for path in texts if str(path).startswith(PRODUCT)]
    files = [len(texts[path].splitlines()) for path in product if path.name != "__init__.py"]
    functions = [length for path in product for length in function_lengths(ast.parse(texts[path]))]
    for what, lengths in (("files", files), ("functions", functions)):
        tenths = statistics.quantiles(lengths, n=10)
        median = statistics.median(lengths)
        print(
            f"{what:<10} {len(lengths):>5}  lines: median {median:g}, p90 {tenths[-1]:g}, most {max(lengths)}"
        )
    at_home = list(used_at_home_only(texts, product))
    print(f"public names used only in their own module: {len(at_home)}")
    if "--names" in argv:
        print(*at_home, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

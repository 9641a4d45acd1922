"""How many files of the product a row and a run pass through: those in which functions run.

  python tests/house/entered_files.py [--tree=DIR] [--json=FILE]

runs commands of this checkout or of another one on a table of 300 rows: a conversion, and an epoch of
training on what it writes. Every thread is watched. The bodies of modules and classes do not count: an import
runs them.
"""

import argparse
import inspect
import json
import os
import pathlib
import random
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence

PRODUCT = ("beam_jobs", "models", "penstock", "pipeline")
ROWS = 300
HERE = pathlib.Path(__file__).resolve()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", default=HERE.parents[2], type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(args.tree.resolve(), pathlib.Path(folder))
    for name, files in found.items():
        print(f"{name}: functions run in {len(files)} files")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


def measured(tree: pathlib.Path, folder: pathlib.Path) -> dict[str, list[str]]:
    """The files in which functions of each command run."""
    table, schema, dataset = folder / "table.csv", folder / "schema.json", folder / "dataset"
    write_table(table)
    entered(tree, "beam_jobs.infer_schema", f"--input={table}", "--label=bought", f"--output={schema}")
    converting = [f"--input={table}", f"--schema={schema}", f"--output={dataset}"]
    training = ["--config=pipeline/configs/tabular.py", f"--dataset={dataset}", f"--workdir={folder / 'run'}"]
    training += ["--config.train.epochs=1.0", "--config.global_batch=32", "--config.model.hidden=16,8"]
    return {
        f"a conversion of {ROWS} rows": entered(tree, "beam_jobs.convert", *converting),
        "an epoch of training on them": entered(tree, "pipeline.train", *training),
    }


def write_table(path: pathlib.Path) -> None:
    """Numbers, categories and a label of two classes."""
    draw = random.Random(0)
    lines = ["age,income,city,bought"]
    for _ in range(ROWS):
        age, city = draw.randint(18, 90), draw.choice(["Bonn", "Kiel", "Ulm"])
        bought = "yes" if age + draw.gauss(0, 10) > 50 else "no"
        lines.append(f"{age},{draw.gauss(50, 20):.2f},{city},{bought}")
    path.write_text("\n".join(lines) + "\n")


def entered(tree: pathlib.Path, module: str, *arguments: str) -> list[str]:
    """The files in which functions of a command run, in a process of its own."""
    with tempfile.NamedTemporaryFile() as found:
        watched = [sys.executable, str(HERE), "--inside", found.name, module, *arguments]
        subprocess.run(watched, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, check=True)
        return json.loads(pathlib.Path(found.name).read_text())


def inside(found: str, module: str, *arguments: str) -> None:
    """Runs a command as `python -m` would, and writes down whose functions run."""
    files: set[str] = set()

    def watch(frame: object, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no body of a module or class
            files.add(frame.f_code.co_filename)

    sys.argv, sys.path[0] = [module, *arguments], str(pathlib.Path.cwd())
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        assert not ended.code, f"{module} ended with {ended.code}"
    finally:
        sys.setprofile(None)
        pathlib.Path(found).write_text(json.dumps(ours(files)))


def ours(files: Sequence[str]) -> list[str]:
    roots = [pathlib.Path.cwd() / room for room in PRODUCT]
    paths = {pathlib.Path(file).absolute() for file in list(files)}
    chosen = {path for path in paths if any(path.is_relative_to(root) for root in roots)}
    return sorted(str(path.relative_to(pathlib.Path.cwd())) for path in chosen)


if __name__ == "__main__":
    inside(*sys.argv[2:]) if sys.argv[1:2] == ["--inside"] else main()

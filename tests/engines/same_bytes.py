"""Same inputs, same bytes, on every engine that runs here; minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make engines
  python -m tests.engines.same_bytes --data=DIR --only=taxi --engines=FnApiRunner,PrismRunner

Converts Adult, Chicago taxi and MNIST on each engine, and once more from input files in another order, and
compares every published file with those of FnApiRunner in one process; an engine that is not installed stands
in the table with the reason. Everything lands below build/same_bytes/.
"""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from absl import app, flags

from tests.engines import fake_dataflow
from tests.engines.engines import DATAFLOW, ENGINES, REFERENCE, ROOT, Engine
from tests.shared.published import differences
from tests.shared.real_data import Case, cases, unpack_mnist
from tests.shared.table import show

_DATA = flags.DEFINE_string("data", None, "Folder with mnist_png, adult and chicago_taxi.", required=True)
_OUTPUT = flags.DEFINE_string("output", "build/same_bytes", "Folder to write to.")
_ONLY = flags.DEFINE_list("only", ["adult", "taxi", "mnist"], "Names of the data sets to run.")
_ENGINES = flags.DEFINE_list("engines", [], "Names of the engines to run; empty: all.")

_PARTS = 4  # that a CSV file is dealt out to


def run(
    module: str, *arguments: str, directory: pathlib.Path, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a command of ours outside the checkout, so that no worker finds our code by accident."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=directory,
        env=environment or {**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"error: {module} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr[-8000:]}")


def convert(case: Case, source: Sequence[str], engine: Engine, output: pathlib.Path) -> float:
    """Seconds that the conversion into `output` took."""
    started = time.monotonic()
    folder = output.parents[1]
    command = ("beam_jobs.convert", *source, *case.convert, f"--schema={folder / 'schema.json'}")
    if engine is DATAFLOW:
        with fake_dataflow.running(folder) as (environment, service):
            place = f"{output.parent.name}/{output.name}"
            remote = f"--output=gs://{fake_dataflow.BUCKET}/{place}"
            run(*command, remote, *service, directory=folder, environment=environment)
            fake_dataflow.download(environment, place, folder)
    else:
        run(*command, f"--output={output}", *engine.flags, directory=folder)
    return time.monotonic() - started


def shuffled(case: Case, folder: pathlib.Path) -> tuple[str, ...]:
    """The flags of `case` for the same rows, with CSV files dealt out to several, in reverse order."""
    inputs = [flag.removeprefix("--input=") for flag in case.source if flag.startswith("--input=")]
    others = [flag for flag in case.source if not flag.startswith("--input=")]
    has_header = not any(flag.startswith("--column_names=") for flag in others)
    if "--format=csv" in others:
        inputs = [part for each in inputs for part in _dealt_out(each, folder, has_header=has_header)]
    return (*others, *(f"--input={each}" for each in reversed(inputs)))


def _dealt_out(given: str, folder: pathlib.Path, *, has_header: bool) -> Iterator[str]:
    split, pinned, path = given.rpartition("=")
    lines = pathlib.Path(path).read_text().splitlines(keepends=True)
    header, rows = lines[:has_header], lines[has_header:]
    for number in range(_PARTS):
        part = folder / f"{split}{number}.csv"
        part.write_text("".join([*header, *rows[number::_PARTS]]))
        yield f"{split}{pinned}{part}"


def compare(case: Case, folder: pathlib.Path, engines: Sequence[Engine]) -> Iterator[dict[str, object]]:
    """Converts `case` on every engine; yields a row of the table for each."""
    folder.mkdir(parents=True)
    (folder / "parts").mkdir()
    infer = ("--name=" + case.name, f"--output={folder / 'schema.json'}")
    run("beam_jobs.infer_schema", *case.source, *case.infer, *infer, directory=folder)
    reshuffled = Engine(name=REFERENCE.name, mode="files shuffled", flags=())
    reference = folder / "0" / "1.0.0"
    for number, engine in enumerate((REFERENCE, reshuffled, *engines)):
        row: dict[str, object] = {"data": case.name, "engine": engine.name, "mode": engine.mode}
        if engine.missing:
            yield {**row, "seconds": "-", "digest": "-", "same": f"not run: {engine.missing}"}
            continue
        source = shuffled(case, folder / "parts") if engine is reshuffled else case.source
        output = folder / str(number) / "1.0.0"
        seconds = convert(case, source, engine, output)
        manifest = json.loads((output / "manifest.json").read_text())
        assert (manifest["rows_read"], manifest["rows_rejected"]) == (case.rows, 0), "rows were lost"
        unlike = differences(reference, output)
        yield {
            **row,
            "seconds": f"{seconds:.1f}",
            "digest": manifest["digest"][:16],
            "same": f"NO: {', '.join(unlike)}" if unlike else "yes",
        }


def main(argv: Sequence[str]) -> int:
    del argv
    data, output = pathlib.Path(_DATA.value).resolve(), pathlib.Path(_OUTPUT.value).resolve()
    shutil.rmtree(output, ignore_errors=True)
    mnist = unpack_mnist(data, output) if "mnist" in _ONLY.value else output
    engines = [e for e in ENGINES if e is not REFERENCE and e.name in (_ENGINES.value or e.name)]
    chosen = [case for case in cases(data, mnist) if case.name in _ONLY.value]
    rows = []
    for row in itertools.chain.from_iterable(compare(case, output / case.name, engines) for case in chosen):
        print(*row.values(), flush=True)
        rows.append(row)
    print()
    show(rows)
    return 1 if any(str(row["same"]).startswith("NO") for row in rows) else 0


if __name__ == "__main__":
    app.run(main)

"""Same inputs, same bytes, on every engine that runs here; minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make engines
  python -m tests.soak.engines --data=DIR --cases=taxi --engines=FnApiRunner,PrismRunner

Converts Adult, Chicago taxi and MNIST on each engine, and once more from input files in another order, and
compares every published file with those of FnApiRunner in one process; an engine that is not installed stands
in the table with the reason.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from absl import flags

from tests.shared.engines import DATAFLOW, ENGINES, REFERENCE, ROOT, Engine
from tests.shared.published import differences
from tests.shared.real_data import Case, cases, unpack_mnist
from tests.soak import fake_dataflow, harness
from tests.soak.harness import Row, Soak, needs_data

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


def faults(soak: Soak, *, name: str) -> Iterator[str]:
    """Converts a data set on every engine, and prints a line for each."""
    folder = soak.folder
    (folder / "parts").mkdir()
    mnist = unpack_mnist(soak.data.resolve(), folder) if name == "mnist" else folder
    case = next(case for case in cases(soak.data.resolve(), mnist) if case.name == name)
    infer = ("--name=" + case.name, f"--output={folder / 'schema.json'}")
    run("beam_jobs.infer_schema", *case.source, *case.infer, *infer, directory=folder)
    reshuffled = Engine(name=REFERENCE.name, mode="files shuffled", flags=())
    others = [e for e in ENGINES if e is not REFERENCE and e.name in (flags.FLAGS.engines or e.name)]
    for number, engine in enumerate((REFERENCE, reshuffled, *others)):
        label = f"{name:<6} {engine.name:<16} {engine.mode:<16}"
        if engine.missing:
            print(f"{label} not run: {engine.missing}", flush=True)
            continue
        source = shuffled(case, folder / "parts") if engine is reshuffled else case.source
        output = folder / str(number) / "1.0.0"
        seconds = convert(case, source, engine, output)
        manifest = json.loads((output / "manifest.json").read_text())
        if (manifest["rows_read"], manifest["rows_rejected"]) != (case.rows, 0):
            yield f"{label} lost rows: {manifest['rows_read']}, {manifest['rows_rejected']} of them rejected"
        unlike = differences(folder / "0" / "1.0.0", output)
        if engine is reshuffled:  # origins name the files, which are others
            unlike = [name for name in unlike if not name.startswith("origins/")]
        if unlike:
            yield f"{label} gives other bytes: {', '.join(unlike)}"
        print(
            f"{label} {seconds:6.1f} s  {manifest['digest'][:16]} {'OTHER' if unlike else 'the same'}",
            flush=True,
        )


ROWS = tuple(
    Row(
        name=name,
        sentence=f"Converts {name} on every engine, and from files in another order: the same bytes.",
        faults=functools.partial(faults, name=name),
        lacks=needs_data,
    )
    for name in ("adult", "taxi", "mnist")
)


if __name__ == "__main__":
    flags.DEFINE_list("engines", [], "Names of the engines to run; empty: all.")
    harness.run(lambda: ROWS)

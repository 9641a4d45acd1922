"""Real data end to end, by the commands a user types; minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make acceptance
  python -m tests.acceptance.run --data=DIR --only=adult

For each data set: propose a schema, convert twice (with one and with two worker processes) to the same
bytes, train, export, and score the export in a process that has nothing but TensorFlow. Everything lands
below build/acceptance/.
"""

import filecmp
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from tests.acceptance.checks import check_adult_rows, check_images
from tests.shared.real_data import ADULT_COLUMNS, Case, cases, unpack_mnist
from tests.shared.table import show

_DATA = flags.DEFINE_string(
    "data", None, "Folder with mnist_png, adult, chicago_taxi and penguins.", required=True
)
_OUTPUT = flags.DEFINE_string("output", "build/acceptance", "Folder to write to.")
_ONLY = flags.DEFINE_list("only", [], "Names of the data sets to run; empty: all.")

TWO_PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def run(*command: str) -> None:
    """Runs a command of ours, shown as a user would type it."""
    print(f"\n$ {shlex.join(('python', *command))}", flush=True)
    if subprocess.run([sys.executable, *command]).returncode:
        sys.exit("error: this command failed")


def score(*arguments: str) -> dict[str, float]:
    """What a process without Penstock makes of an export."""
    command = [sys.executable, "tests/acceptance/score_with_tensorflow.py", *arguments]
    result = subprocess.run(command, text=True, capture_output=True)
    if result.returncode:
        sys.exit(f"error: {shlex.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


def accept(case: Case, folder: pathlib.Path) -> dict[str, object]:
    """Walks the whole road; returns a row of the table. Raises where a step or a comparison fails."""
    started = time.monotonic()
    schema, dataset, workdir, model = (folder / n for n in ("schema.json", "1.0.0", "run", "model"))
    folder.mkdir(parents=True)
    run(
        *("-m", "beam_jobs.infer_schema", *case.source, *case.infer),
        *(f"--name={case.name}", f"--output={schema}"),
    )
    convert(case, schema, dataset)
    converted = time.monotonic()
    check_same_bytes(case, schema, dataset, folder / "again" / "1.0.0")
    training = time.monotonic()
    config = f"pipeline/configs/{case.config}.py"
    run(
        *("-m", "pipeline.train", f"--config={config}", f"--dataset={dataset}", f"--workdir={workdir}"),
        *case.train,
    )
    trained = time.monotonic()
    run("-m", "pipeline.export", f"--workdir={workdir}", f"--output={model}")
    shards = sorted(map(str, dataset.glob(f"{case.name}-test.tfrecord-*-of-*[0-9]")))
    result = score(str(model), case.label, *shards)
    return {
        "data": case.name,
        "rows": f"{case.rows:,}",
        "convert": f"{converted - started:.0f} s",
        "train": f"{trained - training:.0f} s",
        "test examples": f"{result['examples']:,}",
        "metric": case.metric,
        "reached": result[case.metric],
        "required": case.required,
    }


def convert(case: Case, schema: pathlib.Path, output: pathlib.Path, beam_flags: Sequence[str] = ()) -> None:
    run(
        *("-m", "beam_jobs.convert", *case.source, *case.convert),
        *(f"--schema={schema}", f"--output={output}", *beam_flags),
    )
    manifest = json.loads((output / "manifest.json").read_text())
    assert (manifest["rows_read"], manifest["rows_rejected"]) == (case.rows, 0), "rows were lost or rejected"


def check_same_bytes(case: Case, schema: pathlib.Path, dataset: pathlib.Path, again: pathlib.Path) -> None:
    """Converts once more, with two worker processes: every published byte must be the same."""
    convert(case, schema, again, TWO_PROCESSES)
    manifest = json.loads((dataset / "manifest.json").read_text())
    names = [shard["path"] for shards in manifest["splits"].values() for shard in shards]
    names += [file["path"] for file in manifest["files"]] + ["manifest.json"]
    _, different, unreadable = filecmp.cmpfiles(dataset, again, names, shallow=False)
    assert not different and not unreadable, f"not the same bytes: {different + unreadable}"


def check_adult_raw_strings(model: pathlib.Path, adult: pathlib.Path, auc: float) -> None:
    """The `raw` signature, fed with the file's own cells, ranks exactly as the records do."""
    raw = score(str(model), "income", str(adult / "adult-test.csv"), *ADULT_COLUMNS.split(","))
    assert abs(raw["auc"] - auc) < 1e-6, "raw strings and records give different answers"


def main(argv: Sequence[str]) -> int:
    del argv
    data, output = pathlib.Path(_DATA.value).resolve(), pathlib.Path(_OUTPUT.value).resolve()
    shutil.rmtree(output, ignore_errors=True)
    wanted = _ONLY.value or ["mnist", "adult", "taxi", "penguins"]
    mnist = unpack_mnist(data, output) if "mnist" in wanted else output
    rows = []
    for case in cases(data, mnist):
        if case.name not in wanted:
            continue
        folder = output / case.name
        rows.append(accept(case, folder))
        if case.name == "mnist":
            for split in ("train", "test"):
                check_images(folder / "1.0.0", mnist / split, split=split)
        if case.name == "adult":
            columns = ADULT_COLUMNS.split(",")
            check_adult_rows(folder / "1.0.0", data / "adult" / "adult-test.csv", columns)
            check_adult_raw_strings(folder / "model", data / "adult", rows[-1]["reached"])
    print()
    show(rows)
    return 0 if all(row["reached"] >= row["required"] for row in rows) else 1


if __name__ == "__main__":
    app.run(main)

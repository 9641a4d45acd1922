r"""What a row costs that Grain or torch reads through `penstock`'s source, beside their own readers.

  make peers   # Grain, torch and ArrayRecord, in an environment without TensorFlow
  python -m benchmarks.source --scratch=build/benchmark/source

One table of 40 columns (13 numbers, 26 categories, a label) in both layouts, as an ArrayRecord of the same
tf.train.Examples, and as a memory-mapped array. Prints CPU microseconds a row, all threads, medians of
interleaved rounds, and the ratio to Grain on TFRecord rows.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
from absl import app, flags

from benchmarks.reading.shapes import CARDINALITY, CATEGORIES, NUMBERS
from pipeline.base.errors import answers_bad_input
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for the data.", required=True)
_ROWS = flags.DEFINE_integer("rows", 60_000, "Rows of the table.", 5_000)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "How often each reader is measured.", 1)
_PYTHON = flags.DEFINE_string("python", "build/peers/bin/python", "Python that has the peers.")

_ROOT = pathlib.Path(__file__).parents[1]
_LAYOUTS = ("rows", "blocks")
GRAIN = "grain: TFRecord, batches"  # what others are compared with


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch = pathlib.Path(_SCRATCH.value).absolute()
    _write(scratch, _ROWS.value)
    program = [_PYTHON.value, "-m", "benchmarks.peers.row_sources", str(scratch), str(_ROUNDS.value)]
    measured = subprocess.run(program, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    costs = json.loads(measured)
    print(f"{'reader':44}{'CPU µs a row':>14}{'of Grain on TFRecord':>22}")
    for name, cost in costs.items():
        print(f"{name:44}{cost:14.2f}{costs[GRAIN] / cost:21.2f}x")


def _write(scratch: pathlib.Path, rows: int) -> None:
    """The datasets, unless they are there."""
    scratch.mkdir(parents=True, exist_ok=True)
    _table(scratch / "rows.csv", rows)
    schema_lib.save(_schema(), scratch / "schema.json")
    for layout in _LAYOUTS:
        if (scratch / layout).exists():
            continue
        flags_ = (f"--layout={layout}", f"--schema={scratch / 'schema.json'}", "--splits=train=1.0")
        paths = (f"--input={scratch / 'rows.csv'}", f"--output={scratch / layout}")
        subprocess.run([sys.executable, "-m", "beam_jobs.convert", *paths, *flags_], cwd=_ROOT, check=True)


def _schema() -> Schema:
    numbers = (Numeric(name=f"number_{i}") for i in range(NUMBERS))
    categories = (
        Categorical(name=f"category_{i}", encoding="integer", size=CARDINALITY) for i in range(CATEGORIES)
    )
    return Schema(name="table", features=(*numbers, *categories, Label(name="label", classes=("0", "1"))))


def _table(path: pathlib.Path, rows: int) -> None:
    draw, names = np.random.default_rng(0), [feature.name for feature in _schema().features]
    columns = [draw.normal(size=rows).round(4).astype(str) for _ in range(NUMBERS)]
    columns += [draw.integers(CARDINALITY, size=rows).astype(str) for _ in range(CATEGORIES)]
    columns.append(draw.integers(2, size=rows).astype(str))
    lines = (",".join(row) for row in zip(*columns, strict=True))
    path.write_text("\n".join([",".join(names), *lines]) + "\n")


if __name__ == "__main__":
    app.run(main)

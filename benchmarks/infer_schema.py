r"""Peak memory and CPU time of infer_schema on a table of random floats, all different.

  python -m benchmarks.infer_schema --scratch=build/benchmark/infer --rows=1000000 --columns=100

Exits with 1 if the process took more than --most_mib.
"""

import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv
from absl import app, flags

from pipeline.base.errors import answers_bad_input

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for the data.", required=True)
_ROWS = flags.DEFINE_integer("rows", 1_000_000, "Rows of the table.", 1)
_COLUMNS = flags.DEFINE_integer("columns", 100, "Columns of the table, the label among them.", 2)
_MOST_MIB = flags.DEFINE_integer("most_mib", 1024, "Memory that the process may take.", 1)

_CELLS_AT_ONCE = 5_000_000


def _write(path: pathlib.Path, *, rows: int, columns: int) -> None:
    draw = np.random.default_rng(0)
    names = [f"c{number}" for number in range(columns - 1)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int8())])
    with pa.csv.CSVWriter(path, schema) as writer:
        step = max(1, _CELLS_AT_ONCE // columns)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            cells = [pa.array(draw.random(count, np.float32)) for _ in names]
            writer.write_batch(
                pa.record_batch([*cells, pa.array(draw.integers(0, 2, count, np.int8))], schema)
            )


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    scratch = pathlib.Path(_SCRATCH.value)
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / f"{_ROWS.value}x{_COLUMNS.value}.csv"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        _write(temporary, rows=_ROWS.value, columns=_COLUMNS.value)
        temporary.replace(path)
    started = time.perf_counter()
    flag = (f"--input={path}", "--label=label", f"--output={scratch / 'schema.json'}", "--overwrite")
    command = [sys.executable, "-m", "beam_jobs.infer_schema", *flag]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    mib = used.ru_maxrss / 1024
    print(
        f"{_ROWS.value:,} rows x {_COLUMNS.value:,} columns, {path.stat().st_size / 1e6:,.0f} MB: "
        f"{mib:,.0f} MiB at most (allowed: {_MOST_MIB.value:,}), {used.ru_utime + used.ru_stime:,.0f} CPU s, "
        f"{time.perf_counter() - started:,.0f} s"
    )
    return int(mib > _MOST_MIB.value)


if __name__ == "__main__":
    app.run(main)

r"""Peak memory of a conversion where one value of `split_by` has half the rows.

  python -m tests.beam_jobs.heavy_group --megabytes=500 --output=/tmp/heavy

The group falls into a split that was planned for 1% of the rows. Says what each split got, and the largest
memory of any process of the conversion; ends with exit code 1 above a gigabyte.
"""

import json
import pathlib
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
from absl import app, flags

from beam_jobs.conversion.assignment import SPLIT, hash_ids, split_of
from beam_jobs.conversion.plan import parse_fractions
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema, SplitBy

_MEGABYTES = flags.DEFINE_integer("megabytes", 500, "Size of the raw file.", 1)
_OUTPUT = flags.DEFINE_string(
    "output", None, "Folder for raw data and dataset; must not exist.", required=True
)

SPLITS = "train=0.98,validation=0.01,test=0.01"
COLUMNS = 10
LIMIT = 1_000_000_000  # bytes


def heavy_user() -> str:
    """A user whose rows go to the last split."""
    users = [f"heavy{number}" for number in range(10_000)]
    fractions = list(parse_fractions(SPLITS).values())
    return users[split_of(hash_ids(pa.array(users), purpose=SPLIT), fractions).tolist().index(2)]


def lines(size: int) -> Iterator[str]:
    heavy, row, written = heavy_user(), 0, 0
    yield ",".join(["user", *(f"x{column}" for column in range(COLUMNS)), "y"]) + "\n"
    while written < size:
        user = heavy if row % 2 else f"user{row}"
        numbers = (str((row * (column + 7919)) % 1_000_003) for column in range(COLUMNS))
        line = ",".join([user, *numbers, str(row % 3)]) + "\n"
        row, written = row + 1, written + len(line)
        yield line


def main(argv: Sequence[str]) -> None:
    del argv
    output = pathlib.Path(_OUTPUT.value)
    output.mkdir()
    with (output / "rows.csv").open("w") as file:
        file.writelines(lines(_MEGABYTES.value * 1_000_000))
    features = (*(Numeric(name=f"x{c}") for c in range(COLUMNS)), Label(name="y", task="regression"))
    schema = Schema(name="heavy", features=features, split_by=SplitBy(columns=("user",)))
    schema_lib.save(schema, output / "schema.json")
    subprocess.run(
        [
            *(sys.executable, "-m", "beam_jobs.convert", f"--input={output / 'rows.csv'}"),
            *(f"--schema={output / 'schema.json'}", f"--output={output / '1.0.0'}", f"--splits={SPLITS}"),
            f"--json={output / 'summary.json'}",
        ],
        check=True,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    rows = {
        name: split["rows"]
        for name, split in json.loads((output / "summary.json").read_text())["splits"].items()
    }
    print(f"rows {rows}, peak {peak / 1e6:,.0f} MB (limit {LIMIT / 1e6:,.0f} MB)")
    sys.exit(peak > LIMIT)


if __name__ == "__main__":
    app.run(main)

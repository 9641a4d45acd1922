"""A million small records, as datasets of both layouts: 40 numbers, an id and a label each."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.reading.data import lists, run_convert
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Tensor
from pipeline.data.schema.schema import Schema

_NUMBERS = 40
_SHARD_MIB = {"rows": 16, "blocks": 1024}


def schema(rows: int) -> Schema:
    """The id is the row's number in the raw data, from 0."""
    return Schema(
        name="small",
        features=(
            Categorical(name="id", encoding="integer", size=rows),
            Tensor(name="x", dimensions=(_NUMBERS,)),
            Label(name="y", classes=("0", "1")),
        ),
    )


def written(scratch: pathlib.Path, rows: int, *, layout: str = "rows") -> pathlib.Path:
    """The dataset's directory below `scratch`; written unless it is there."""
    here = scratch / f"{rows}"
    dataset = here / layout
    if not (dataset / "manifest.json").exists():
        here.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(_table(rows), here / "raw.parquet")
        schema_lib.save(schema(rows), here / "schema.json")
        run_convert(here, here / "raw.parquet", "parquet", shards(layout), layout=layout)
    return dataset


def shards(layout: str) -> str:
    """The flag of `convert` that says how large a shard is."""
    return f"--shard_mib={_SHARD_MIB[layout]}"


def _table(rows: int) -> pa.Table:
    values = np.random.default_rng(0).random((rows, _NUMBERS), np.float32)
    labels = pa.array((values[:, 0] < 0.5).astype(int).astype(str))
    return pa.table({"id": np.arange(rows), "x": lists(values), "y": labels})

"""Raw rows arrive in the split of their group, bad ones left out."""

import collections
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from beam_jobs.cells.rows import arrow_schema
from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.preparation import Prepare
from beam_jobs.conversion.shuffle_files import Spill
from beam_jobs.launch.progress import Progress
from beam_jobs.sources.pieces.source import Input, Piece, RawRows
from pipeline.data.schema.kinds import Numeric
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(name="s", features=(Numeric(name="number", number="int64"),))
HALVES = {"train": Fraction(1, 2), "test": Fraction(1, 2)}
ONE_EACH = dict.fromkeys(HALVES, 1)
PLAN = Plan(
    pieces=(), fractions=HALVES, shards=ONE_EACH, buckets=ONE_EACH, layout="rows", schema_fingerprint=""
)
ROWS, IN_GROUP = 200, 10


@dataclasses.dataclass(frozen=True)
class Grouped:
    """Numbers in groups of ten. The first of each group is no number."""

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return [Piece(paths=("numbers",), root="", bytes=1) for _ in inputs]

    def read(self, piece: Piece) -> Iterator[RawRows]:
        cells = [b"bad" if row % IN_GROUP == 0 else str(row).encode() for row in range(ROWS)]
        yield RawRows(
            columns=pa.record_batch({"number": pa.array(cells)}),
            sources=piece.name,
            numbers=np.arange(1, ROWS + 1),
            groups=pa.array([f"group {row // IN_GROUP}" for row in range(ROWS)]),
            undecoded=True,
        )


def test_a_group_goes_to_one_split(tmp_path: pathlib.Path):
    prepare = Prepare(
        Grouped(), SCHEMA, PLAN, spill=Spill(directory=""), progress=Progress(path=str(tmp_path / "none"))
    )
    [piece] = Grouped().pieces([Input(location="numbers")])
    groups, received = collections.defaultdict(set), []
    for output in prepare.process(piece):
        if isinstance(output, TaggedOutput):
            continue
        (split, _), (_, sent) = output
        numbers = pa.ipc.read_record_batch(pa.py_buffer(sent), arrow_schema(SCHEMA)).column("number")
        groups[split] |= {number // IN_GROUP for number in numbers.to_pylist()}
        received += numbers.to_pylist()
    assert sorted(received) == [row for row in range(ROWS) if row % IN_GROUP]
    assert len(groups["train"]) + len(groups["test"]) == ROWS // IN_GROUP
    assert groups["train"] and groups["test"]

"""The raw rows of records as training has them: by file, record and row of a block; in a mixture, by part."""

import pathlib
import shutil

import numpy as np
import pytest

from beam_jobs.sources.formats import open_source
from pipeline.data.dataset.selection import select
from pipeline.data.origins import reader
from pipeline.data.reading.plan import Mixture, Part
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.stream import origins_of, raw_features, records_of
from tests.shared.conversions import converted

SCHEMA = Schema(name="numbers", features=(Numeric(name="number", number="int64"),))
ROWS = 1500


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_each_record_of_a_mixture_has_the_raw_row_of_its_part(tmp_path: pathlib.Path, layout: str):
    parts = []
    for first in (0, ROWS):
        raw = tmp_path / f"from {first}.csv"
        raw.write_text("number\n" + "".join(f"{first + row}\n" for row in range(ROWS)))
        dataset = converted(
            str(raw),
            tmp_path / f"{first}",
            source=open_source("csv"),
            schema=SCHEMA,
            layout=layout,
            shard_bytes=1 << 20,
        )
        parts.append(Part(selection=select(dataset, "train"), weight=1.0))
    data = Mixture(parts=tuple(parts))
    numbers = np.array([[part, row] for row in range(0, 1150, 7) for part in (0, 1)])
    records = records_of(data, np.arange(len(numbers)), numbers)
    found = origins_of(data, records)
    for stored, raw in zip(raw_features(data, records), found, strict=True):
        assert raw.text == str(stored["number"])
        assert str(raw) == f"from {stored['number'] // ROWS * ROWS}.csv line {2 + stored['number'] % ROWS:,}"
    shutil.rmtree(parts[1].selection.dataset.directory / reader.FOLDER)
    (tmp_path / "from 0.csv").unlink()
    without = origins_of(data, records)
    assert [raw and str(raw) for raw in without[0::2]] == [str(raw) for raw in found[0::2]]
    assert {raw.text for raw in without[0::2]} == {None}
    assert set(without[1::2]) == {None}

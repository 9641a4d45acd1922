"""Rows in hash order, whatever order they arrived in; images are read a few at a time."""

import io
import os
import pathlib
import resource

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion import records as records_lib
from beam_jobs.conversion import writer
from beam_jobs.conversion.records import encode
from beam_jobs.conversion.shuffle import Spill
from beam_jobs.conversion.writer import bucket_rows, in_hash_order, ties_ranked
from pipeline.data.schema.feature_types import Image, Numeric
from pipeline.data.schema.schema import Schema
from tests.shared import forked

SCHEMA = Schema(name="s", features=(Numeric(name="x", number="int64"),))


def batch(rows: list[tuple[int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"": order, "x": x} for order, x in rows], schema=arrow_schema(SCHEMA))


@pytest.mark.parametrize("directory", ["", "spilled"])
def test_a_bucket_that_is_large_in_memory_comes_in_parts(tmp_path: pathlib.Path, directory: str):
    spill = Spill(directory=str(tmp_path) if directory else "")
    hashes = (
        np.random.default_rng(0).integers(1 << 63, (1 << 64) - 1, 300, np.uint64).tolist()
    )  # bucket 1 of 2
    rows = [(order, x) for x, order in enumerate([*hashes, hashes[0], hashes[0]])]
    batches = [batch(rows[start : start + 50]).serialize().to_pybytes() for start in range(0, len(rows), 50)]
    sent, size = spill.put(batches), sum(map(len, batches))

    def parts(at_once: int) -> list[pa.RecordBatch]:
        return list(bucket_rows(sent, SCHEMA, spill=spill, number=1, count=2, at_once=at_once))

    [whole] = parts(size)
    assert whole.to_pylist() == sorted(whole.to_pylist(), key=lambda row: row[""])
    assert sorted(whole.column("x").to_pylist()) == list(range(len(rows)))
    many = parts(size // 10)
    assert pa.Table.from_batches(many).equals(pa.Table.from_batches([whole]))
    assert len(many) > 9
    assert max(part.num_rows for part in many) < len(rows) / 5


def test_a_part_without_rows_is_left_out():
    spill = Spill(directory="")
    sent = [batch([(1 << 63, x)] * 50).serialize().to_pybytes() for x in range(4)]
    [rows] = bucket_rows(sent, SCHEMA, spill=spill, number=1, count=2, at_once=len(sent[0]))
    assert rows.column("x").to_pylist() == [x for x in range(4) for _ in range(50)]


def test_rows_are_sorted_by_their_hash():
    ordered = in_hash_order(batch([(1 << 63, 0), (5, 1), ((1 << 64) - 1, 2), (7, 3)]))
    assert ordered.column("x").to_pylist() == [1, 3, 0, 2]


@pytest.mark.parametrize("rows_at_once", [2, 1000])
def test_rows_of_one_hash_are_sorted_by_their_records(monkeypatch: pytest.MonkeyPatch, rows_at_once: int):
    monkeypatch.setattr(records_lib, "_ROWS_AT_ONCE", rows_at_once)
    rows = [(5, 300), (9, 1), (5, 2), (5, 70), (9, 0), (7, 4)]
    records = set()
    for seed in range(20):
        shuffled = [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))]
        ordered = ties_ranked(in_hash_order(batch(shuffled)), SCHEMA)
        records.add(tuple(encode(ordered, SCHEMA).to_pylist()))
    assert len(records) == 1


def test_no_rows_are_in_order():
    assert ties_ranked(in_hash_order(batch([])), SCHEMA).num_rows == 0


def test_one_row_given_many_times_is_ranked_in_little_memory(tmp_path: pathlib.Path):
    def body() -> None:
        rows = batch([(7, 1)])
        rows = rows.take(pa.array(np.zeros(500_000, np.int64)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ties_ranked(rows, SCHEMA)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(1, b"%d" % (grown >> 10))

    ended = forked.call(body, tmp_path, timeout=60)
    assert int(ended.stdout) < 60, "MiB"


# Images are read a few at a time, and rows of one hash together.
OF_IMAGES = Schema(name="s", features=(Image(name="before"), Image(name="after")))


def png(number: int) -> bytes:
    stream = io.BytesIO()
    PIL.Image.fromarray(np.full((2, 2), number, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def rows_of(folder: pathlib.Path, hashes: list[int]) -> pa.RecordBatch:
    """A row of two files for each hash."""
    rows = []
    for number, order in enumerate(hashes):
        paths = [folder / f"{number}-{name}.png" for name in ("before", "after")]
        for path in paths:
            path.write_bytes(png(number))
        before, after = ({"path": str(path), "data": None} for path in paths)
        rows.append({"": order, "before": before, "after": after})
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(OF_IMAGES))


def test_parts_are_small_and_keep_rows_of_one_hash_together(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "_BYTES_AT_ONCE", 1)
    rows = rows_of(tmp_path, [1, 2, 2, 2, 3, 4, 4])
    parts = [part for part, _ in writer.load_in_parts(rows, OF_IMAGES, root="")]
    assert [part.column("").to_pylist() for part in parts if part.num_rows] == [[1], [2, 2, 2], [3], [4, 4]]
    read = [image for part in parts for image in part.column("after").to_pylist()]
    assert read == [png(number) for number in range(7)]


def test_a_row_is_left_out_once_whatever_is_wrong_with_its_images(tmp_path: pathlib.Path):
    rows = rows_of(tmp_path, [1, 2, 3])
    (tmp_path / "1-before.png").write_bytes(b"")
    (tmp_path / "1-after.png").unlink()
    (tmp_path / "2-after.png").write_bytes(png(2)[:20])
    loaded, rejected = writer.load_images(rows, OF_IMAGES, root=f"{tmp_path}/")
    assert loaded.column("before").to_pylist() == [png(0)]
    assert [(one.source, one.column) for one in rejected] == [
        ("1-before.png", "before"),
        ("2-after.png", "after"),
    ]
    assert rejected[0].reason == "zero bytes"


def test_no_rows_have_no_images(tmp_path: pathlib.Path):
    loaded, rejected = writer.load_images(rows_of(tmp_path, []), OF_IMAGES, root="")
    assert (loaded.num_rows, rejected) == (0, [])
    assert loaded.schema.field("before").type == pa.large_binary()

"""Images are read a few at a time, and rows of one hash together."""

import io
import pathlib

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

from beam_jobs.cells.typed import arrow_schema
from beam_jobs.conversion import writer
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema

SCHEMA = Schema(name="s", features=(Image(name="before"), Image(name="after")))


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
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(SCHEMA))


def test_parts_are_small_and_keep_rows_of_one_hash_together(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(writer, "_BYTES_AT_ONCE", 1)
    rows = rows_of(tmp_path, [1, 2, 2, 2, 3, 4, 4])
    parts = [part for part, _ in writer.load_in_parts(rows, SCHEMA, root="")]
    assert [part.column("").to_pylist() for part in parts if part.num_rows] == [[1], [2, 2, 2], [3], [4, 4]]
    read = [image for part in parts for image in part.column("after").to_pylist()]
    assert read == [png(number) for number in range(7)]


def test_a_row_is_left_out_once_whatever_is_wrong_with_its_images(tmp_path: pathlib.Path):
    rows = rows_of(tmp_path, [1, 2, 3])
    (tmp_path / "1-before.png").write_bytes(b"")
    (tmp_path / "1-after.png").unlink()
    (tmp_path / "2-after.png").write_bytes(png(2)[:20])
    loaded, rejected = writer.load_images(rows, SCHEMA, root=f"{tmp_path}/")
    assert loaded.column("before").to_pylist() == [png(0)]
    assert [(one.source, one.column) for one in rejected] == [
        ("1-before.png", "before"),
        ("2-after.png", "after"),
    ]
    assert rejected[0].reason == "zero bytes"


def test_no_rows_have_no_images(tmp_path: pathlib.Path):
    loaded, rejected = writer.load_images(rows_of(tmp_path, []), SCHEMA, root="")
    assert (loaded.num_rows, rejected) == (0, [])
    assert loaded.schema.field("before").type == pa.large_binary()

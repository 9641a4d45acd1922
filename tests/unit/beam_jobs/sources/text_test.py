"""Text files: lines, paragraphs, documents, cut anywhere; and the rows of tokens made of them."""

import gzip
import pathlib

import numpy as np
import pytest

from beam_jobs.sources import byte_streams, lines
from beam_jobs.sources.text import UNITS, TextFiles
from beam_jobs.sources.tokens import TokenRows
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from tests.shared import raw_rows

TEXT = b"one\ntwo\r\n\n \nthree\n\n\n\nfour\nfive\n \t\nsix \xc3\xbc\n\n"


def texts(source: TextFiles, path: pathlib.Path) -> list[bytes]:
    return [row["text"] for row in raw_rows.cells(source, path)]


@pytest.mark.parametrize("split_bytes", [1, 2, 3, 5, 8, 13, 1000])
@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("line", [b"one", b"two", b"three", b"four", b"five", b"six \xc3\xbc"]),
        ("paragraph", [b"one\ntwo", b"three", b"four\nfive", b"six \xc3\xbc"]),
        ("document", [TEXT]),
    ],
)
def test_cutting_a_file_changes_no_row(tmp_path: pathlib.Path, unit: str, expected: list, split_bytes: int):
    (tmp_path / "a.txt").write_bytes(TEXT)
    assert texts(TextFiles(unit=unit, split_bytes=split_bytes), tmp_path / "a.txt") == expected


@pytest.mark.parametrize("unit", UNITS)
def test_a_byte_order_mark_is_no_text(tmp_path: pathlib.Path, unit: str):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\n\ntwo")
    whole, parts = (texts(TextFiles(unit=unit, split_bytes=size), tmp_path / "a.txt") for size in (100, 2))
    assert whole == parts == ([b"one\n\ntwo"] if unit == "document" else [b"one", b"two"])


@pytest.mark.parametrize("unit", UNITS)
def test_rows_that_no_worker_can_hold_are_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, unit: str
):
    monkeypatch.setattr(lines, "_ROW_BYTES", 2 << 20)
    for name, line in (("small", b"ab cd "), ("large", b"ab cd " * 9)):
        end = b" " if unit == "line" else b"\n"
        (tmp_path / f"{name}.txt.gz").write_bytes(gzip.compress((line + end) * 50_000))
    assert len(texts(TextFiles(unit=unit), tmp_path / "small.txt.gz")) == 1
    with pytest.raises(InputError, match=rf"large\.txt\.gz: received a {unit} of more than 2 MiB"):
        texts(TextFiles(unit=unit), tmp_path / "large.txt.gz")


def test_long_lines_come_a_few_at_a_time(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(byte_streams, "BATCH_BYTES", 1000)
    (tmp_path / "long.txt").write_bytes(b"x" * 600 + b"\n" + b"y" * 600 + b"\nz")
    read = raw_rows.read(TextFiles(), tmp_path / "long.txt")
    assert [raw.columns.num_rows for raw in read] == [2, 1]


def token_rows(length: int, **options: object) -> TokenRows:
    return TokenRows(
        source=TextFiles(unit="line"), tokenizer=ByteTokenizer(), column="text", length=length, **options
    )


def test_packed_rows_hold_every_token_of_a_file_in_order(tmp_path: pathlib.Path):
    lines = [f"line {number}" for number in range(2000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    raw = raw_rows.read(token_rows(16), tmp_path / "a.txt")
    tokens = np.concatenate([part.columns.column("tokens").flatten().to_numpy() for part in raw])
    segments = np.concatenate([part.columns.column("segments").flatten().to_numpy() for part in raw])
    kept = tokens[segments > 0]
    assert bytes((kept[kept != 1] - 3).tolist()).decode() == "".join(lines)
    assert (kept == 1).sum() == len(lines)
    assert (segments == 0).sum() < len(tokens) / 64
    assert all(len(set(part.groups.to_pylist())) <= 1 for part in raw)


def test_one_document_a_row(tmp_path: pathlib.Path):
    (tmp_path / "a.txt").write_bytes(b"abc\n\xff\nd\n")
    raw = raw_rows.read(token_rows(3, packing="document"), tmp_path / "a.txt")
    tokens = [row for part in raw for row in part.columns.column("tokens").to_pylist()]
    assert tokens == [[100, 101, 102], [103, 1, 0]]
    rejected = [(rejection.row, rejection.reason) for part in raw for rejection in part.rejected]
    assert rejected == [(2, "not UTF-8")]


def test_a_column_that_is_not_there_is_named(tmp_path: pathlib.Path):
    (tmp_path / "a.txt").write_bytes(b"abc\n")
    source = TokenRows(source=TextFiles(), tokenizer=ByteTokenizer(), column="body", length=4)
    with pytest.raises(InputError, match="a column 'body'"):
        raw_rows.read(source, tmp_path / "a.txt")


@pytest.mark.parametrize("packing", ["packed", "document"])
def test_a_long_document_gives_the_rows_that_it_gives_as_a_whole(tmp_path: pathlib.Path, packing: str):
    documents = ["short", "é words of a long one " * 400, "last"]
    (tmp_path / "a.txt").write_text("\n".join(documents))
    whole, parts = (
        rows_of(token_rows(16, packing=packing, **limits), tmp_path / "a.txt")
        for limits in ({}, {"part_bytes": 50, "most_tokens": 500})
    )
    for column in ("tokens", "segments"):
        np.testing.assert_array_equal(
            np.concatenate([rows.column(column).flatten() for rows, _ in parts]),
            np.concatenate([rows.column(column).flatten() for rows, _ in whole]),
        )
    groups = [set(groups.to_pylist()) for rows, groups in parts if packing == "packed" and rows.num_rows]
    assert all(len(group) == 1 for group in groups)
    assert len(set.union(set(), *groups)) <= 2 < len(groups) or packing == "document"


def rows_of(source: TokenRows, path: pathlib.Path) -> list:
    return [(raw.columns, raw.groups) for raw in raw_rows.read(source, path)]


@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_a_file_whose_lines_end_in_carriage_returns_alone_is_refused(tmp_path: pathlib.Path, unit: str):
    path = tmp_path / "old.txt"
    path.write_bytes(b"one\rtwo\rthree\r")
    with pytest.raises(InputError, match=r"3 lines that end in a carriage return alone.*tr '.r' '.n' <"):
        texts(TextFiles(unit=unit), path)
    path.write_bytes(b"10%\r20%\rdone\n\nnext\n")  # a line that a terminal wrote over
    assert texts(TextFiles(unit=unit), path) == [b"10%\r20%\rdone", b"next"]

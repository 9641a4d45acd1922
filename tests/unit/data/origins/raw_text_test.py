"""A row is read again by the number of its line: as Python's own reader splits the file."""

import bz2
import csv
import gzip
import io
import itertools
import pathlib
import types

import numpy as np
import pytest

from pipeline.data.origins import reader as reader_lib
from pipeline.data.origins.files import ANY_LINE_END, LINE_FEED, Entry, ends_of_rows


def whole(path: pathlib.Path, content: bytes) -> Entry:
    path.write_bytes(content)
    return Entry(path.name, 0, 0, len(content))


@pytest.mark.parametrize(
    ("end", "line_ends"),
    [("\n", LINE_FEED), ("\n", ANY_LINE_END), ("\r\n", ANY_LINE_END), ("\r", ANY_LINE_END)],
)
def test_every_line_of_a_file_of_several_blocks(
    tmp_path: pathlib.Path, monkeypatch, end: str, line_ends: str
):
    monkeypatch.setattr(reader_lib, "_BLOCK", 64)
    monkeypatch.setattr(reader_lib, "_MOST_READ", 1 << 20)
    random = np.random.default_rng(0)
    lines = [f"{number} größe " + "x" * int(random.integers(0, 90)) for number in range(300)]
    lines[5] = lines[17] = ""
    part = whole(tmp_path / "a", end.join(lines).encode())
    found = reader_lib.text_rows(tmp_path / "a", part, range(1, 301), line_ends)
    assert [found[number] for number in range(1, 301)] == lines
    some = reader_lib.text_rows(tmp_path / "a", part, {300, 7, 302}, line_ends)
    assert some == {7: lines[6], 300: lines[299]}


def test_a_part_is_counted_from_its_start(tmp_path: pathlib.Path):
    part = whole(tmp_path / "a", b"one\ntwo\nthree\n")._replace(start=4)
    assert reader_lib.text_rows(tmp_path / "a", part, [1, 2], LINE_FEED) == {1: "two", 2: "three"}


def test_a_row_of_csv_of_several_lines(tmp_path: pathlib.Path):
    part = whole(tmp_path / "a", b'1,"a\n""b"", c\n"\n2,5" pipe\n3,x\n')
    found = reader_lib.text_rows(tmp_path / "a", part, [1, 4, 5], ANY_LINE_END)
    assert found == {1: '1,"a\n""b"", c\n"', 4: '2,5" pipe', 5: "3,x"}


@pytest.mark.parametrize(
    ("quote", "escape", "text", "expected"),
    [
        ("none", "none", '"a,1\nb",2\n', {1: '"a,1', 2: 'b",2'}),
        ("'", "none", "'a\n''b',1\n\"c,2\nd\",3\n", {1: "'a\n''b',1", 3: '"c,2', 4: 'd",3'}),
        ('"', "\\", '"a \\"\nb",1\nc\\\nd,2\ne,3\n', {1: '"a \\"\nb",1', 3: "c\\\nd,2", 5: "e,3"}),
        ("none", "\\", '"a\\\nb,1\nc",2\n', {1: '"a\\\nb,1', 3: 'c",2'}),
    ],
)
def test_rows_of_csv_with_other_quotes(
    tmp_path: pathlib.Path, quote: str, escape: str, text: str, expected: dict[int, str]
):
    part = whole(tmp_path / "a", text.encode())
    ends = ends_of_rows(quote=quote, escape=escape)
    assert reader_lib.text_rows(tmp_path / "a", part, list(expected), ends) == expected


def test_quotes_within_cells_join_no_rows(tmp_path: pathlib.Path):
    text = 'id,size\n1,5" pipe\n2,x\n3,3" pipe,"two\nlines, 4"" wide"\n"4\n",""\n5,a"b,"""c"""\n6,"d"\n'
    part = whole(tmp_path / "a", text.encode())
    reader = csv.reader(io.StringIO(text))
    ends = [0, *(reader.line_num for _ in reader)]
    lines = text.split("\n")
    expected = {first + 1: "\n".join(lines[first:last]) for first, last in itertools.pairwise(ends)}
    assert reader_lib.text_rows(tmp_path / "a", part, list(expected), ANY_LINE_END) == expected


def test_a_long_row_is_cut_and_what_is_not_utf8_escaped(tmp_path: pathlib.Path):
    part = whole(tmp_path / "a", b"x" * (3 << 20) + b"\n\xff\n")
    found = reader_lib.text_rows(tmp_path / "a", part, [1, 2], LINE_FEED)
    assert found == {1: "x" * (16 << 10), 2: "\\xff"}


@pytest.mark.parametrize(("module", "ending"), [(gzip, ".gz"), (bz2, ".bz2")])
def test_a_compressed_file(tmp_path: pathlib.Path, module: types.ModuleType, ending: str):
    path = tmp_path / f"a.csv{ending}"
    part = whole(path, module.compress(b"one\ntwo\n" * 1000))
    assert reader_lib.text_rows(path, part, [2000], LINE_FEED) == {2000: "two"}
    cut = whole(path, path.read_bytes()[:-10])
    assert reader_lib.text_rows(path, cut, [2], LINE_FEED) in ({}, {2: "two"})
    assert reader_lib.text_rows(path, whole(path, b"no archive"), [1], LINE_FEED) == {}


def test_a_file_that_changed_or_is_gone_has_no_rows(tmp_path: pathlib.Path):
    part = whole(tmp_path / "a", b"one\ntwo\n")
    (tmp_path / "a").write_bytes(b"one\nthree\n")
    assert reader_lib.text_rows(tmp_path / "a", part, [1], LINE_FEED) == {}
    for name in ("b", "\0", "x" * 5000):
        assert reader_lib.text_rows(tmp_path / name, part, [1], LINE_FEED) == {}
    assert reader_lib.text_rows(tmp_path, part, [1], LINE_FEED) == {}

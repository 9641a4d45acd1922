"""CSV files: every row knows its number, whatever stands around it."""

import gzip
import os
import pathlib
import resource
from unittest import mock

import hypothesis
import pyarrow as pa
import pytest

from beam_jobs.sources import csv
from beam_jobs.sources.csv import CsvFiles, CsvStream
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from tests.shared import forked, raw_rows


def read(path: pathlib.Path, **options: object) -> tuple[dict[int, list[bytes]], dict[int, str]]:
    """Cells of good rows and reasons of rejected ones, by row number."""
    rows: dict[int, list[bytes]] = {}
    rejected: dict[int, str] = {}
    for raw in raw_rows.read(CsvFiles(**options), path):
        for position, cells in enumerate(raw.columns.to_pylist()):
            number = raw.origin(position).row
            assert number not in rows
            rows[number] = list(cells.values())
        rejected |= {rejection.row: rejection.reason for rejection in raw.rejected}
    return rows, rejected


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.csv"


def test_the_number_of_a_row_is_its_line(path: pathlib.Path):
    path.write_bytes(b"a,b\n1,2\n3,4\n")
    assert read(path) == ({2: [b"1", b"2"], 3: [b"3", b"4"]}, {})


def test_without_a_header_the_first_row_is_data(path: pathlib.Path):
    path.write_bytes(b"1,2\n3\n5,6\n")
    assert read(path, column_names=("a", "b")) == (
        {1: [b"1", b"2"], 3: [b"5", b"6"]},
        {2: "1 cells in place of 2"},
    )


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
@pytest.mark.parametrize("header", [True, False])
def test_numbers_hold_across_wrong_rows_blank_lines_quoted_newlines_and_blocks(
    path: pathlib.Path, block_bytes: int, header: bool
):
    lines = []
    expected: dict[int, list[bytes]] = {}
    wrong = set()
    line = 2 if header else 1
    for number in range(1, 301):
        if number % 7 == 0:
            lines.append(b"too,many,cells")
            wrong.add(line)
        else:
            text = b"two\nlines" if number % 5 == 0 else b"one"
            lines.append(b'"%s",%d' % (text, number))
            expected[line] = [text, b"%d" % number]
        if number % 11 == 0:
            lines.append(b"")
        line += (2 if number % 7 and number % 5 == 0 else 1) + (number % 11 == 0)
    path.write_bytes((b"text,number\n" if header else b"") + b"\n".join(lines))
    names = () if header else ("text", "number")
    rows, rejected = read(path, block_bytes=block_bytes, column_names=names)
    assert rows == expected
    assert set(rejected) == wrong


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_a_row_that_is_not_utf8_and_of_the_wrong_size_is_one_rejected_row(
    path: pathlib.Path, block_bytes: int
):
    rows = [b"caf\xc3\xa9,%d" % number for number in range(1, 101)]
    rows[59], rows[79] = b"\xff", b"\xff,80"
    path.write_bytes(b"\xef\xbb\xbfa,b\n" + b"\n".join(rows))
    good, rejected = read(path, block_bytes=block_bytes)
    assert good == {n: row.split(b",") for n, row in enumerate(rows, 2) if n != 61}
    assert rejected == {61: "1 cells in place of 2"}


def test_bytes_that_are_not_utf8_are_left_to_the_row(path: pathlib.Path):
    path.write_bytes(b"a,b\n\xff,2\n3\n")
    assert read(path) == ({2: [b"\xff", b"2"]}, {3: "1 cells in place of 2"})


def test_tabs_bom_blanks_around_names_and_gzip(tmp_path: pathlib.Path):
    path = tmp_path / "data.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa\t b \n1\t2\n"))
    assert raw_rows.cells(CsvFiles(delimiter="\t"), path) == [{"a": b"1", "b": b"2"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a#2,a,a\n1,2,3\n", "names that differ"),
        (b'a,b\n1,"never closed\n' + b"x,y\n" * 1000, "quotes that are closed"),
    ],
)
def test_a_file_that_is_no_csv_is_refused_by_name(path: pathlib.Path, content: bytes, message: str):
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        read(path, block_bytes=256)
    assert str(path) in str(raised.value)


def test_columns_of_one_name_and_of_none_are_read_by_position(path: pathlib.Path):
    path.write_bytes(b"a,a,\n1,2,3\n")
    assert raw_rows.cells(CsvFiles(), path) == [{"a#1": b"1", "a#2": b"2", "#3": b"3"}]


def test_who_stops_reading_leaves_no_thread_that_reads_on(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    path.write_text("a,b\n" + "1,2\n" * 100_000)
    blocks: list[bytes] = []
    read_block = CsvStream.read

    def recorded(stream: CsvStream, size: int) -> bytes:
        blocks.append(read_block(stream, size))
        return blocks[-1]

    monkeypatch.setattr(CsvStream, "read", recorded)
    source = CsvFiles(block_bytes=1 << 10)
    [input_split] = source.input_splits([Input(location=str(path))])
    rows = source.read(input_split)
    next(rows)
    rows.close()
    assert blocks[-1] == b""
    assert len(blocks) < 100


def test_an_input_that_matches_nothing_is_refused(path: pathlib.Path):
    with pytest.raises(InputError, match="no file there"):
        CsvFiles().input_splits([Input(location=str(path))])


def test_an_input_of_empty_files_is_refused_but_not_one_among_others(path: pathlib.Path):
    path.write_bytes(b"")
    with pytest.raises(InputError, match="0 bytes"):
        CsvFiles().input_splits([Input(location=str(path))])
    path.with_name("other.csv").write_bytes(b"a\n1\n")
    assert len(CsvFiles().input_splits([Input(location=str(path.parent))])) == 1


def test_places_are_told_from_the_directory_that_all_inputs_share(tmp_path: pathlib.Path):
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        (tmp_path / split / "data.csv").write_bytes(b"a\n1\n")
    read = raw_rows.read(CsvFiles(), tmp_path / "*" / "data.csv")
    assert {raw.origin(0) for raw in read if raw.columns.num_rows} == {
        ("train/data.csv", 2),
        ("test/data.csv", 2),
    }


def test_hidden_files_are_left_out_unless_named(tmp_path: pathlib.Path):
    for name in (".hidden.csv", "data.csv"):
        (tmp_path / name).write_bytes(b"a\n1\n")
    source = CsvFiles()
    found = [
        source.input_splits([Input(location=str(tmp_path / name))]) for name in ("", "*.csv", ".hidden.csv")
    ]
    assert [
        [pathlib.Path(input_split.paths[0]).name for input_split in input_splits] for input_splits in found
    ] == [
        ["data.csv"],
        ["data.csv"],
        [".hidden.csv"],
    ]


ADVERSARIAL = [
    b'a,b\n"x\ny",1\n5" pipe,2\n"say ""hi""\n",3\n\n"",4\n"q"r"s,5\n' * 6,
    b'a,b\r\n"x\r\n,",1\r\ny,"\n\n\n\n\n\n\n\n\n\n\n\n\n\n"\r\n' * 5,
    b'a,b\r"\r",1\rz"",2\r""""\r,3\r' * 5,
    b"a,b\n" + b"\n" * 100 + b"1,2\n" * 20,
    b"a,b\n1\n" * 20,
    "a,b\nZürich,\u201c\n".encode() * 20 + b'\xff,"\xfe\n"\n' * 5,
]


@pytest.mark.parametrize("content", ADVERSARIAL)
@pytest.mark.parametrize("split_bytes", [7, 16, 50])
def test_cutting_a_file_changes_no_row(path: pathlib.Path, content: bytes, split_bytes: int):
    path.write_bytes(content)

    def cells(source: CsvFiles) -> list:
        assert source.split_bytes > 1000 or len(source.input_splits([Input(location=str(path))])) > 2
        raw = raw_rows.read(source, path)
        return [row for part in raw for row in part.columns.to_pylist()], [
            rejection.raw for part in raw for rejection in part.rejected
        ]

    assert cells(CsvFiles(split_bytes=split_bytes)) == cells(CsvFiles())


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 1 << 20])
@hypothesis.given(content=hypothesis.strategies.text('ab,"\n\r', max_size=60))
def test_rows_begin_where_a_careful_reader_says(block_bytes: int, content: str):
    """Against a state machine that goes byte by byte."""
    data = content.encode()
    expected = _row_starts(content)
    with mock.patch.object(csv, "_BLOCK_BYTES", block_bytes):
        find = csv.RowStarts(delimiter=",")
        stream = pa.BufferReader(data)
        found = [find(stream, place) for place in range(1, len(data) + 1)]
    assert found == [min((s for s in expected if s >= p), default=len(data)) for p in range(1, len(data) + 1)]


def _row_starts(content: str) -> list[int]:
    starts, quoted, closed, fresh = [], False, False, True
    for place, character in enumerate(content):
        ends = character == "\n" or (character == "\r" and content[place + 1 : place + 2] != "\n")
        if character == '"' and quoted:
            quoted, closed, fresh = False, True, False
        elif character == '"' and (fresh or closed):
            quoted, closed, fresh = True, False, False
        elif quoted:
            continue
        else:
            closed, fresh = False, character in ",\n\r"
            starts += [place + 1] if ends else []
    return starts


def test_a_column_takes_little_memory(path: pathlib.Path):
    names, cells = (",".join(f"{letter}{n}" for n in range(20_000)) for letter in "ab")
    path.write_text(f"{names}\n{cells}\n")
    [input_split] = CsvFiles().input_splits([Input(location=str(path))])

    def body() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert sum(raw.columns.num_rows for raw in CsvFiles().read(input_split)) == 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(1, b"%d" % (grown >> 10))

    ended = forked.call(body, path.parent / "output", timeout=60)
    assert int(ended.stdout) < 100, "MiB"

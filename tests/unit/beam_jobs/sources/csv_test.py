"""CSV files: every row knows its number, whatever stands around it."""

import csv
import dataclasses
import gzip
import os
import pathlib
import resource
from unittest import mock

import hypothesis
import pyarrow as pa
import pytest

from beam_jobs.sources import csv_rows
from beam_jobs.sources.csv import CsvFiles, CsvStream
from beam_jobs.sources.csv_rows import Dialect
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from tests.shared import forked, raw_rows
from tests.shared.careful_csv import DIALECTS, careful_rows


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
    with mock.patch.object(csv_rows, "_BLOCK_BYTES", block_bytes):
        find = csv_rows.RowStarts(Dialect())
        stream = pa.BufferReader(data)
        found = [find(stream, place) for place in range(1, len(data) + 1)]
    assert found == [min((s for s in expected if s >= p), default=len(data)) for p in range(1, len(data) + 1)]


def _row_starts(content: str) -> list[int]:
    return [row.end for row in careful_rows(content, Dialect()) if content[row.end - 1] in "\n\r"]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@hypothesis.given(data=hypothesis.strategies.data(), at_once=hypothesis.strategies.integers(1, 9))
@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_every_row_is_read_or_rejected_as_a_careful_reader_finds_it(
    path: pathlib.Path, dialect: Dialect, data: hypothesis.strategies.DataObject, at_once: int
):
    signs = "a" + dialect.delimiter + dialect.quote.replace("none", '"') + "\n\r \\"
    content = data.draw(hypothesis.strategies.text(signs, max_size=40)) + "a" + dialect.delimiter + "a\n"
    expected = [row for row in careful_rows(content, dialect) if not row.is_blank]
    path.write_bytes(content.encode())
    source = CsvFiles(column_names=("a", "b"), **dataclasses.asdict(dialect))
    with mock.patch.object(csv_rows, "_AT_ONCE", at_once):
        read = raw_rows.read(source, path)
    rows = {
        int(number): [cell.decode() for cell in cells.values()]
        for raw in read
        for number, cells in zip(
            raw.numbers if raw.numbers is not None else (), raw.columns.to_pylist(), strict=True
        )
    }
    good = [row for row in expected if len(row.cells) == 2 and not row.is_flawed]
    assert rows == {row.line: row.cells for row in good}
    assert {(left.row, left.lines) for raw in read for left in raw.rejected} == {
        (row.line, row.lines) for row in expected if row not in good
    }
    spans = {line: lines for raw in read for line, lines in raw.spans.items()}
    assert spans == {row.line: row.lines for row in good if row.lines > 1}


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@pytest.mark.parametrize("split_bytes", [40, 1 << 20])
def test_what_python_writes_is_read_as_it_was(path: pathlib.Path, dialect: Dialect, split_bytes: int):
    has_escape, has_quote = dialect.escape != "none", dialect.quote != "none"
    cells = [
        "",
        "plain",
        f"a{dialect.delimiter}b",
        'say "hi"',
        "C:\\new\\",
        "it's",
        "two\nlines",
        "'",
        '"',
        "größe",
    ]
    if not has_escape and not has_quote:
        cells = [cell for cell in cells if not set(cell) & {dialect.delimiter, "\n"}]
    table = [[one, other] for one in cells for other in cells if one or other]
    with path.open("w", newline="") as file:
        csv.writer(
            file,
            delimiter=dialect.delimiter,
            quotechar=dialect.quote if has_quote else None,
            quoting=csv.QUOTE_MINIMAL if has_quote else csv.QUOTE_NONE,
            doublequote=not has_escape,
            escapechar=dialect.escape if has_escape else None,
            lineterminator="\n",
        ).writerows([["a", "b"], *table])
    source = CsvFiles(block_bytes=256, split_bytes=split_bytes, **dataclasses.asdict(dialect))
    assert [[cell.decode() for cell in row.values()] for row in raw_rows.cells(source, path)] == table


STRAY = (
    "text,count,answer\n"
    '"Hello 10 is what,1,no\nword 11 of it,7,yes\nWho said 60 good bye",3,no\n'
    'plain,1,no\n"He said \\"hi\\" 0",4,yes\n"two\nlines",5,no\n"behind" it,6,no\n"blank" ,7,no\n'
    'last,8,"not closed\n'
)


def test_rows_that_quotes_spoil_are_told_with_their_lines(path: pathlib.Path):
    path.write_text(STRAY)
    read = raw_rows.read(CsvFiles(), path)
    assert [row["count"] for raw in read for row in raw.columns.to_pylist()] == [b"3", b"1", b"5", b"7"]
    rejected = [(row.row, row.lines, row.reason) for raw in read for row in raw.rejected]
    assert rejected == [
        (6, 1, "text behind a closing quote that follows a backslash"),
        (9, 1, "text behind a closing quote"),
        (11, 1, "a quote that is not closed"),
    ]
    [doubt] = [row for raw in read for row in raw.doubtful]
    assert (doubt.row, doubt.lines, doubt.is_kept) == (2, 3, True)
    assert doubt.raw.startswith('"Hello 10 is what,1,no')


@pytest.mark.parametrize(
    ("row", "is_doubtful"),
    [
        ('"x,1,no\ny",2,no', True),
        ('"x, and more,1,no\ny,2,no\nz",3,no', True),
        ('"x\n\ny",2,no', False),
        ('"Dear all,\nthis, or that\nbye",2,no', False),
    ],
)
def test_a_cell_of_several_lines_is_doubtful_where_these_look_like_rows(
    path: pathlib.Path, row: str, is_doubtful: bool
):
    path.write_text(f"text,count,answer\n{row}\n")
    assert any(raw.doubtful for raw in raw_rows.read(CsvFiles(), path)) is is_doubtful


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

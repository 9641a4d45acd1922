"""How a CSV file is written is found from its rows."""

import gzip
import pathlib
import re
import subprocess

import pytest

from beam_jobs.sources import byte_streams, dialect
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.dialect import delimiter_of
from beam_jobs.sources.formats import open_source, settings_of
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from tests.shared import raw_rows

ROWS = [("name", "größe", "town"), *((f"n{i}", f"{i}.5", "Zürich, CH") for i in range(30))]
QUOTED = 'id,text\n1,"a;b\n;c"\n2,"d, e"\n3,"""f"""\n'


def table(delimiter: str, rows: list[tuple[str, ...]] = ROWS) -> str:
    return "\n".join(delimiter.join(f'"{c}"' if delimiter in c else c for c in row) for row in rows) + "\n"


def found(path: pathlib.Path, content: bytes, **given: str) -> dict[str, str]:
    path.write_bytes(content)
    return dialect.find([Input(location=str(path))], given, guess=True)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_parts_the_rows_into_equal_numbers_of_cells(delimiter: str):
    assert delimiter_of(table(delimiter)) == delimiter


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (QUOTED, ","),
        ("a;b\n1,5;2,7\n3,1;4,4\n", ";"),
        ("1,5;2,7;3\n3,1;4,4;6\n", ";"),
        ("id,genres\n1,a|b\n2,a\n3,b|c|d\n", ","),
        ("text\nwords, and more\nwords\n", None),
        ("size|town\n" + "".join(f"{n}|{n % 3}.5|Bern, CH\n" for n in range(20)), "|"),
        ("text\n" + "words, and more\n" * 20, None),
    ],
)
def test_delimiters_within_cells_are_not_mistaken(text: str, delimiter: str | None):
    assert delimiter_of(text) == delimiter


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        *(("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("latin-1", "latin-1"), ("cp1252", "latin-1")),
        *(
            ("utf-32", "utf-32-le"),
            ("utf-16", "utf-16-le"),
            ("utf-16-le", "utf-16-le"),
            ("utf-16-be", "utf-16-be"),
        ),
    ],
)
def test_every_encoding_is_found_and_read(encoding: str, named: str, tmp_path: pathlib.Path):
    path = tmp_path / "data.csv"
    values = found(path, table(";").encode(encoding))
    assert values == {"delimiter": ";", "encoding": named, "header": "yes"}
    source = open_source("csv", values)
    assert settings_of(source) == values
    assert raw_rows.cells(source, path) == [
        dict(zip(ROWS[0], [c.encode() for c in row], strict=True)) for row in ROWS[1:]
    ]


def test_curly_quotes_of_windows_are_letters(tmp_path: pathlib.Path):
    assert found(tmp_path / "a.csv", "a,b\n“x”,1\n“y”,2\n".encode("cp1252"))["encoding"] == "cp1252"


def test_a_few_damaged_rows_of_utf_8_are_left_to_the_rows(tmp_path: pathlib.Path):
    content = table(",").encode() + b'n,"Z\xfcrich",1\n'
    assert found(tmp_path / "a.csv", content)["encoding"] == "utf-8"


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("name,2010,2011\nch,1.5,2\nde,3,4\nfr,3,4\n", "yes"),
        ("0,1,2\n5.1,3.5,1\n4.9,3.0,1\n4.9,3.0,1\n", "yes"),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n6.1,2.0,virginica\n", "no"),
        ("39, State-gov, 77516\n50, Private, 83311\n?, Private, 1\n", "no"),
        ("p,x,s\n" + "e,x,s\np,b,y\n" * 10, "no"),
        ("2020-01-01 12:00,ERROR,a b\n2020-01-02 12:05,WARN,c d\n2020-01-02 12:06,WARN,e f\n", "no"),
        ("1.2.2020;Bern\n3.2.2020;Genf\n15.2.2020;Chur\n", "no"),
        ("day,city\n2020-01-01,Bern\n2020-01-02,Genf\n2020-01-03,Chur\n", "yes"),
        ("first,last\nAda,Lovelace\nAlan,Turing\nGrace,Hopper\n", "yes"),
        ("a,b\n1,2\n", "yes"),
    ],
)
def test_a_header_is_told_from_a_row(content: str, header: str, tmp_path: pathlib.Path):
    assert found(tmp_path / "a.csv", content.encode())["header"] == header


PLAIN = "".join(f"word {i},{i},{'yes' if i % 2 else 'no'}\n" for i in range(60))
HEADER = "text,count,answer\n"
STRAY = HEADER + "".join(
    f'"Hello {i} is what,{i},no\nword {i} of it,{i},yes\nWho said {i} good bye",{i},no\n' for i in range(60)
)
ESCAPED = HEADER + "".join(f'"He said \\"hi, {i}\\"",{i},yes\n"plain, {i}",{i},no\n' for i in range(60))
SINGLE = HEADER + "".join(f"'it''s, {i}',{i},'yes'\n" for i in range(60))


@pytest.mark.parametrize(
    ("content", "quotes", "first", "rows"),
    [
        (HEADER + PLAIN, {}, "word 0", 60),
        (STRAY, {"quote": "none"}, '"Hello 0 is what', 180),
        (STRAY.replace(",", "\t"), {"quote": "none"}, '"Hello 0 is what', 180),
        (HEADER + PLAIN + '"Never closed,2,no\n' + PLAIN, {"quote": "none"}, "word 0", 121),
        (HEADER + PLAIN + '"Weird Al" Yankovic,2,no\n' + PLAIN, {"quote": "none"}, "word 0", 121),
        (ESCAPED, {"escape": "\\"}, 'He said "hi, 0"', 120),
        (HEADER + 'say \\"hi\\" now,1,yes\nC:\\new,2,no\n' * 30, {"escape": "\\"}, 'say "hi" now', 60),
        (
            HEADER + 'say \\"hi\\" now,1,yes\n"two\nlines",2,no\n' * 30 + '"behind" it,3,no\n',
            {"escape": "\\"},
            'say "hi" now',
            60,
        ),
        (HEADER + '5\\" wide,1,yes\n6" wide,2,no\n' * 30, {}, '5\\" wide', 60),
        (SINGLE, {"quote": "'"}, "it's, 0", 60),
        (
            HEADER.replace(",", ";") + "'two; \nlines';1;yes\n'it''s';2;no\n\"q\";3;no\n" * 20,
            {"quote": "'"},
            "two; \nlines",
            60,
        ),
        (
            HEADER + "one\\, two,1,yes\nthree\\\nfour,2,no\nplain,3,no\n" * 20,
            {"quote": "none", "escape": "\\"},
            "one, two",
            60,
        ),
        (HEADER + '"two\nlines, ""really""",1,yes\n' * 30, {}, 'two\nlines, "really"', 30),
        (HEADER + '"a, b",1,yes\n' * 30 + '"Weird, Al" Yankovic,2,no\n', {}, "a, b", 30),
    ],
)
def test_quotes_are_found_remembered_and_read(
    content: str, quotes: dict[str, str], first: str, rows: int, tmp_path: pathlib.Path
):
    values = found(tmp_path / "a.csv", content.encode())
    assert {name: values[name] for name in values if name in ("quote", "escape")} == quotes
    source = open_source("csv", values)
    assert settings_of(source) == values
    assert ("(--quote" in dialect.format_dialect(values)) is ("quote" in quotes)
    read = raw_rows.cells(source, tmp_path / "a.csv")
    assert (len(read), read[0]["text"]) == (rows, first.encode())


def test_quotes_are_not_guessed_without_leave_nor_against_a_flag(tmp_path: pathlib.Path):
    path = tmp_path / "a.csv"
    path.write_text(STRAY)
    assert "quote" not in dialect.find([Input(location=str(path))], {}, guess=False)
    bare = HEADER + "one\\, two,1,yes\nthree\\\nfour,2,no\nplain,3,no\n" * 20
    assert found(path, bare.encode(), quote="none")["escape"] == "\\"  # what is not said is still looked for
    assert "quote" not in found(path, STRAY.encode(), quote='"')
    with pytest.raises(InputError, match="--delimiter, --quote and --escape: received ',', ','"):
        found(path, STRAY.encode(), quote=",")


# Of each: what it is called, its text, and the first cell of its last row.
ODD_TABLES = (
    ("one name less", HEADER + "".join(f"{i},{row}\n" for i, row in enumerate(PLAIN.splitlines())), "59"),
    ("at the end of each row", HEADER + PLAIN.replace("\n", ",\r\n"), "word 59"),
    ("at the end of each row", HEADER + '"two\nlines,\nthree",1,yes,\n' * 60, "two\nlines,\nthree"),
    ("at the end of the header", HEADER.replace("\n", ",\n") + PLAIN, "word 59"),
    ("a line for Excel", "sep=,\r\n" + HEADER + PLAIN, "word 59"),
    ("2 lines above the table, such as 'Report'", "Report\nof all\n" + HEADER + PLAIN, "word 59"),
    ("4 lines above", "# made\r\n\r\n# by hand\r\n\r\n" + HEADER + PLAIN, "word 59"),
    ("blanks between", HEADER + '"a, b", 1,  "yes, ""I"" do"\n' * 60, "a, b"),
)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
@pytest.mark.parametrize("delimiter", [",", "\t", "|"])
@pytest.mark.parametrize(("name", "text", "first"), ODD_TABLES)
def test_a_table_that_no_flag_reads_is_named_and_the_advice_works(
    name: str, text: str, first: str, delimiter: str, ending: str, tmp_path: pathlib.Path
):
    path, table = tmp_path / f"it's{ending}", text.replace(",", delimiter).encode()
    path.write_bytes(gzip.compress(table) if ending == ".csv.gz" else table)
    source = CsvFiles(delimiter=delimiter)
    with pytest.raises(InputError, match=name) as raised:
        raw_rows.read(source, path)
    command = raised.value.action.removeprefix("Run ").removesuffix(" and read that.")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    rows = raw_rows.cells(source, tmp_path / "fixed.csv")
    assert len(rows) == 60
    assert next(iter(rows[-1].values())) == first.replace(",", delimiter).encode()
    assert not any(cell.startswith((b" ", b'"')) for cell in rows[-1].values())


def test_blanks_between_cells_as_r_writes_them_are_named(tmp_path: pathlib.Path):
    rows = "".join(f'"{i}" "word {i}" {i}\n' for i in range(60))
    values = found(tmp_path / "a.csv", ('"text" "count"\n' + rows).encode())
    with pytest.raises(InputError, match="Give --delimiter=' '"):
        raw_rows.read(open_source("csv", values), tmp_path / "a.csv")
    values = found(tmp_path / "a.csv", ('"row" "text" "count"\n' + rows).encode(), delimiter=" ")
    assert raw_rows.cells(open_source("csv", values), tmp_path / "a.csv")[7]["text"] == b"word 7"


def test_what_is_given_is_not_looked_for(tmp_path: pathlib.Path):
    content = "5.1;3.5\n4.9;3.0\n4.9;3.1\n".encode("utf-16")
    assert found(tmp_path / "a.csv", content, delimiter=",", header="yes") == {
        "delimiter": ",",
        "encoding": "utf-16-le",
        "header": "yes",
    }


@pytest.mark.parametrize(
    ("encoding", "read_as"),
    [("utf-16", "utf-16-le"), ("utf-8-sig", "utf-8"), ("cp1252", "cp1252"), ("utf-8", "utf-8")],
)
def test_a_byte_order_mark_or_letters_of_utf_8_say_more_than_what_a_schema_remembers(
    tmp_path: pathlib.Path, encoding: str, read_as: str
):
    path, known = tmp_path / "a.csv", {"delimiter": ";", "encoding": "cp1252", "header": "yes"}
    path.write_bytes(table(";").encode(encoding))
    inputs = [Input(location=str(path))]
    values = known | dialect.find(inputs, known, guess=False, remembered=known.keys())
    assert values == known | {"encoding": read_as}
    assert dialect.find(inputs, known, guess=False) == {}  # the flag was given


@pytest.mark.parametrize("names", [("a", "b", "a"), ("a", "")])
def test_names_that_columns_would_share_are_refused(names: tuple[str, ...]):
    with pytest.raises(InputError, match="--column_names: received a,"):
        open_source("csv", {"column_names": names})


def test_without_guessing_latin_1_and_a_missing_header_are_not_assumed(tmp_path: pathlib.Path):
    path = tmp_path / "a.csv"
    path.write_bytes("5.1;Zürich\n4.9;Zürich\n4.9;Bern\n".encode("latin-1"))
    assert dialect.find([Input(location=str(path))], {}, guess=False) == {
        "delimiter": ";",
        "encoding": "utf-8",
        "header": "yes",
    }


def test_without_a_header_columns_are_numbered_and_large_files_cut(tmp_path: pathlib.Path):
    path = tmp_path / "a.csv"
    path.write_bytes("".join(f"{i};Zürich\n" for i in range(100)).encode("latin-1"))
    source = CsvFiles(header="no", delimiter=";", encoding="latin-1", split_bytes=100)
    assert len(source.input_splits([Input(location=str(path))])) > 5
    assert raw_rows.cells(source, path) == [
        {"column_1": b"%d" % i, "column_2": "Zürich".encode()} for i in range(100)
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "gb18030"])
def test_a_character_that_the_file_cuts_off_rejects_its_row(tmp_path: pathlib.Path, encoding: str):
    path = tmp_path / "cut.csv"
    path.write_bytes("a,b\n1,x\n2,中".encode(encoding)[:-1])
    whole, cut = raw_rows.cells(CsvFiles(encoding=encoding), path)
    assert whole["b"] == b"x"
    with pytest.raises(UnicodeDecodeError):
        cut["b"].decode()


def test_bytes_that_are_no_characters_name_the_flag(tmp_path: pathlib.Path):
    path = tmp_path / "ascii.csv"
    path.write_bytes(b"abc,def\n123,456\n")
    with pytest.raises(InputError, match=r"ascii\.csv: .*or give the right .*--encoding"):
        raw_rows.read(CsvFiles(encoding="utf-32-le"), path)


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be", "UTF-32", "latin-1", "cp1252", "shift_jis", "utf-7"])
def test_an_encoding_of_text_is_taken(name: str):
    assert byte_streams.check_encoding(name) == name


@pytest.mark.parametrize("name", ["idna", "punycode", "undefined", "base64", "klingon"])
def test_what_reads_no_text_is_no_encoding(name: str):
    with pytest.raises(InputError, match=f"--encoding: received {name}"):
        byte_streams.check_encoding(name)


def test_utf_16_is_not_cut(tmp_path: pathlib.Path):
    path = tmp_path / "a.csv"
    path.write_bytes(table(",").encode("utf-16"))
    assert len(CsvFiles(encoding="utf-16", split_bytes=100).input_splits([Input(location=str(path))])) == 1


def test_a_delimiter_that_is_said_is_taken_as_shells_can_type_it(tmp_path: pathlib.Path):
    assert found(tmp_path / "a.csv", table("\t").encode(), delimiter=r"\t")["delimiter"] == "\t"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', "an object of JSON; .*--format=jsonl"),
        ('[\n {"a": 1}]', r"a JSON array; .*jq -c '\.\[\]'"),
        ("<!DOCTYPE html>\n<html></html>\n", "a page of HTML"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: pathlib.Path, content: str, message: str):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InputError, match=f"received {message}"):
        raw_rows.read(CsvFiles(), tmp_path / "a.csv")


@pytest.mark.parametrize("delimiter", ["::", "||", "   "])
def test_a_delimiter_of_several_characters_is_named_with_a_command(tmp_path: pathlib.Path, delimiter: str):
    path = tmp_path / "a.csv"
    path.write_text("".join(delimiter.join(row) + "\n" for row in (("a", "b"), ("1", "2"), ("3", "4"))))
    with pytest.raises(InputError, match="where a delimiter is one character") as raised:
        raw_rows.read(CsvFiles(), path)
    command = re.search("Run (.*) > fixed.csv", str(raised.value))[1]
    fixed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
    assert fixed == "a\tb\n1\t2\n3\t4\n"


def test_a_command_for_lines_that_end_in_carriage_returns_leaves_the_table(tmp_path: pathlib.Path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"sep=,\ra,b\r1,2\r3,4\r")
    with pytest.raises(InputError, match="a line for Excel") as raised:
        raw_rows.read(CsvFiles(), path)
    command = re.search("Run (.*) > fixed.csv", str(raised.value))[1]
    assert subprocess.run(command, shell=True, check=True, capture_output=True).stdout == b"a,b\n1,2\n3,4\n"

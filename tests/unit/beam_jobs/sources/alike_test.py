"""Files that are read together are written alike, or an error says which is not, and what makes it so."""

import pathlib
import re
import subprocess

import pytest

from beam_jobs.sources.alike import check_alike
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError

COMMAS = 'id,town\n1,"Zürich, CH"\n2,Genève\n'
SEMICOLONS = COMMAS.replace(',"', ';"').replace("2,", "2;").replace("id,", "id;")
OTHERS = "id,town\n3,Bern\n4,Olten\n"
LATIN_1 = CsvFiles(encoding="latin-1")
SEVERAL = "\n".join(["7,Bern", "8,Olten", "9,Bern", "10,Bern"]) + "\n"


def check(folder: pathlib.Path, contents: list[bytes], source: CsvFiles, **given: str) -> None:
    for number, content in enumerate(contents):
        (folder / f"{number}.csv").write_bytes(content)
    check_alike(source, [Input(location=str(folder))], given=given)


def encoded(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


CASES = {  # contents, how the first is read, what the error says, and the number of the file that it is about
    "delimiter": (encoded(COMMAS, SEMICOLONS), CsvFiles(), "received semicolons", 1),
    "the odd one first": (
        encoded(SEMICOLONS, COMMAS, OTHERS),
        CsvFiles(delimiter=";"),
        r"commas, as in .*1.csv \(2 of 3 files\)",
        0,
    ),
    "Latin-1 first": ([COMMAS.encode("latin-1"), COMMAS.encode()], LATIN_1, "received text in LATIN-1", 0),
    "Latin-1 before a mark": (
        [COMMAS.encode("latin-1"), COMMAS.encode("utf-8-sig")],
        LATIN_1,
        "in LATIN-1",
        0,
    ),
    "UTF-16": ([OTHERS.encode(), COMMAS.encode("utf-16")], CsvFiles(), "received text in UTF-16", 1),
    "no header": (encoded(OTHERS, SEVERAL), CsvFiles(), "names none of the other files' columns", 1),
    "no header first": (encoded(SEVERAL, OTHERS), CsvFiles(header="no"), "rows without names", 0),
}


@pytest.mark.parametrize(("contents", "source", "said", "odd"), CASES.values(), ids=CASES)
def test_the_odd_file_is_named_and_the_command_makes_it_like_the_others(
    contents: list[bytes], source: CsvFiles, said: str, odd: int, tmp_path: pathlib.Path
):
    with pytest.raises(InputError, match=said) as error:
        check(tmp_path, contents, source)
    path = tmp_path / f"{odd}.csv"
    assert error.value.thing == f"input {path}"
    command = re.search(r"(?:Run|header:) (.*?) > fixed.csv", error.value.action)
    made = subprocess.run(["sh", "-c", command[1]], capture_output=True, check=True)
    path.write_bytes(made.stdout)
    check(tmp_path, [], CsvFiles())
    assert path.read_text(encoding="utf-8-sig").startswith("id,town")


@pytest.mark.parametrize(
    "contents",
    [
        encoded(COMMAS, "town,id\nBern,7\n"),
        [COMMAS.encode("utf-8-sig"), OTHERS.encode()],
        encoded(COMMAS, "id,fee\n7,8\n"),
        [COMMAS.encode(), OTHERS.encode() + b"5,Z\xfcrich\n"],  # a bad row, which is rejected alone
    ],
    ids=["order", "byte order mark", "a column less", "a row in Latin-1"],
)
def test_files_that_are_read_alike_may_differ(contents: list[bytes], tmp_path: pathlib.Path):
    check(tmp_path, contents, CsvFiles())


def test_a_delimiter_that_was_given_is_right_however_many_files_have_another(tmp_path: pathlib.Path):
    contents = encoded(COMMAS, SEMICOLONS, SEMICOLONS)
    with pytest.raises(InputError, match="received semicolons"):
        check(tmp_path, contents, CsvFiles(), delimiter=",")


def test_tables_of_other_columns_are_no_header_that_lacks(tmp_path: pathlib.Path):
    contents = encoded("id,town\n1,Bern\n2,Bern\n3,Bern\n", "fee,day\n1.5,2\n3.5,4\n5.5,6\n")
    with pytest.raises(InputError, match="Read one kind of table at a time"):
        check(tmp_path, contents, CsvFiles())

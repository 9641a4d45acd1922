"""Tables as other programs write them: encodings, delimiters, no header, odd line ends."""

import gzip
import pathlib

from tests.strangers.stranger import Stranger, csv_file, csv_text, renamed, visits

_GERMAN = {"Basel": "Zürich", "Bern": "Köln", "Genf": "Genève"}


def _german() -> list[dict[str, str]]:
    return [{**row, "city": _GERMAN[row["city"]]} for row in renamed(visits(), {})]


def _crlf_and_blank_lines(folder: pathlib.Path) -> None:
    lines = csv_text(visits()).splitlines()
    (folder / "data.csv").write_bytes("\r\n".join([*lines[:50], "", *lines[50:], "", ""]).encode())


def _comments_before_header(folder: pathlib.Path) -> None:
    (folder / "data.csv").write_text("# exported 2024-03-01\n# by shop\n" + csv_text(visits()))


def _quoted_newlines(folder: pathlib.Path) -> None:
    rows = [{"note": f'said "hi",\nthen {row["city"]}', **row} for row in visits()]
    (folder / "data.csv").write_text(csv_text(rows))


def _ragged(folder: pathlib.Path) -> None:
    lines = csv_text(visits()).splitlines()
    lines[40] += ",one more"
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def _gzip(folder: pathlib.Path) -> None:
    (folder / "data.csv.gz").write_bytes(gzip.compress(csv_text(visits()).encode()))


def _tabs_as_txt(folder: pathlib.Path) -> None:
    (folder / "data.txt").write_text(csv_text(visits(), delimiter="\t"))


STRANGERS = (
    Stranger(name="utf8_bom", ugly="UTF-8 with BOM", write=csv_file(_german, encoding="utf-8-sig")),
    Stranger(name="utf16", ugly="UTF-16, as Excel saves it", write=csv_file(_german, encoding="utf-16")),
    Stranger(name="latin1", ugly="Latin-1 umlauts", write=csv_file(_german, encoding="latin-1")),
    Stranger(
        name="tab_in_tsv",
        ugly="tabs, in data.tsv",
        write=csv_file(visits, path="data.tsv", delimiter="\t"),
        inputs=("data.tsv",),
    ),
    Stranger(name="tab_in_csv", ugly="tabs, in data.csv", write=csv_file(visits, delimiter="\t")),
    Stranger(name="semicolon", ugly="semicolons", write=csv_file(visits, delimiter=";")),
    Stranger(name="pipe", ugly="pipes", write=csv_file(visits, delimiter="|")),
    Stranger(
        name="no_header",
        ugly="no header; the label is the last column",
        write=csv_file(visits, header=()),
        source=("--column_names=age,city,visits,bought",),
    ),
    Stranger(
        name="no_header_unsaid",
        ugly="no header, and nobody says so",
        write=csv_file(visits, header=()),
        ends=True,
    ),
    Stranger(name="crlf_blank_lines", ugly="CRLF, and blank lines between", write=_crlf_and_blank_lines),
    Stranger(
        name="comment_lines", ugly="two lines before the header", write=_comments_before_header, ends=True
    ),
    Stranger(name="quoted_newlines", ugly="quotes and line ends in cells", write=_quoted_newlines),
    Stranger(name="ragged_row", ugly="one row of five cells", write=_ragged, ends=True),
    Stranger(name="gzip", ugly="data.csv.gz", write=_gzip, inputs=("data.csv.gz",)),
    Stranger(
        name="table_in_txt",
        ugly="tabs, in data.txt",
        write=_tabs_as_txt,
        inputs=("data.txt",),
        source=("--format=csv", "--delimiter=\\t"),
    ),
)

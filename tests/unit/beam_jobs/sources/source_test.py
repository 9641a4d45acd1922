"""What all sources share: headers, rejected rows, likely causes, and what a schema remembers."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import pytest

from beam_jobs.sources import flags as source_flags
from beam_jobs.sources import source
from beam_jobs.sources.columns import column_names, header_remarks
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import (
    Rejected,
    Rejection,
    cause_of_names,
    check_readable,
    likely_cause,
    takes_encoding,
)
from beam_jobs.sources.text import TextFiles
from beam_jobs.sources.tokens import TokenRows
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer


def test_columns_without_a_name_of_their_own_are_told_by_position():
    names = column_names(["id", "price", "", "price"], "a.csv")
    assert names == ("id", "price#2", "#3", "price#4")
    assert list(header_remarks(names)) == [
        "Several columns are called 'price': they are read by position, as 'price#2', 'price#4'.",
        "Columns have no name: they are read by position, as '#3'.",
    ]


def test_other_names_are_kept():
    assert column_names(["a", "b#7"], "a.csv") == ("a", "b#7")
    assert list(header_remarks(("a", "b#7"))) == []


def test_a_name_that_looks_like_a_position_is_not_mixed_up_with_one():
    with pytest.raises(InputError, match=r"a.csv, header: received several columns 'a#2'"):
        column_names(["a#2", "a", "a"], "a.csv")


@pytest.mark.parametrize(
    ("reason", "flag"),
    [
        ("3 cells in place of 1", "--delimiter"),
        ("3 cells in place of 1", "--header=no"),
        ("not UTF-8", "iconv -f latin1"),
        ("not a JSON object (Expecting value)", "--format"),
    ],
)
def test_the_flag_is_named(reason: str, flag: str):
    with pytest.raises(InputError, match=r"6 of 100 rows that cannot be read \(6 × ") as raised:
        check_readable({reason: 6}, rows=100, path="a.csv")
    assert flag in raised.value.action


def test_the_encoding_is_a_flag_of_csv_alone():
    of_csv = TokenRows(source=CsvFiles(), tokenizer=ByteTokenizer(), column="text", length=8)
    of_text = dataclasses.replace(of_csv, source=TextFiles())
    assert [takes_encoding(each) for each in (CsvFiles(), of_csv, of_text)] == [True, True, False]
    told = [likely_cause({"not UTF-8": 6}, rows=100, has_encoding=each) for each in (True, False)]
    assert [("--encoding" in cause, "iconv" in cause) for cause in told] == [(True, False), (False, True)]


def test_few_such_rows_are_left_to_the_rows():
    check_readable({"not UTF-8": 5}, rows=100, path="a.csv")
    assert likely_cause({"not UTF-8": 5}, rows=100) == ""


def test_a_row_of_several_lines_counts_as_so_many():
    row = Rejection(source="a.csv", row=7, reason="a quote that is not closed", lines=10)
    rejected = source.CollectRejected().extract_output(
        source.CollectRejected().add_input(source.CollectRejected().create_accumulator(), row)
    )
    source.check_rejection_limit(rejected, rows_read=91, limit=0.1)
    with pytest.raises(
        InputError, match=r"1 of 90 rows, which count as 10 .*_fraction=0\.102\. .* give --quote=none"
    ):
        source.check_rejection_limit(rejected, rows_read=90, limit=0.1)
    check_readable({row.reason: 1}, rows=191, path="a.csv", further_lines=9)
    with pytest.raises(
        InputError, match=r"received 10 of 199 lines that cannot be read .* give --quote=none"
    ):
        check_readable({row.reason: 1}, rows=190, path="a.csv", further_lines=9)


def test_where_no_row_is_left_the_commonest_reason_is_named_and_no_limit():
    reason = "not a date as %Y-%m-%d"
    rows = [
        Rejection(source="a.csv", row=number, column="joined", reason=reason, raw="15.09.2026")
        for number in range(2, 9)
    ]
    rejected = collected(
        *rows, Rejection(source="a.csv", row=9, column="fee", reason="not a number", raw="22,41")
    )
    with pytest.raises(InputError, match=r"received 8 of 8 rows") as raised:
        source.check_rejection_limit(rejected, rows_read=8, limit=0.5)
    action = raised.value.action
    assert f"no row would be left. The commonest reason: {reason} in column 'joined'." in action
    assert "infer_schema --date_format=COLUMN=FORMAT" in action
    assert "--max_rejected_fraction" not in action
    assert "row 2, column 'joined'" in action and "row 9, column 'fee'" in action  # one of each reason


def test_only_what_may_have_swallowed_rows_counts_by_lines():
    unlabelled = [
        Rejection(source="a.csv", row=number, reason=source.NO_LABEL, lines=2) for number in range(1, 241, 2)
    ]
    bad = [
        Rejection(source="a.csv", row=number, reason="not a number", lines=2 + (number < 509))
        for number in range(501, 557, 2)
    ]
    with pytest.raises(InputError, match=r"148 of 9,088 rows, which count as 180 \(120 × no label") as raised:
        source.check_rejection_limit(collected(*unlabelled, *bad), rows_read=9088, limit=0.0)
    assert "a row counts once for each line that it takes, without a label once" in raised.value.expected


def collected(*rows: Rejection) -> source.Rejected:
    collect = source.CollectRejected()
    accumulator = collect.create_accumulator()
    for row in rows:
        collect.add_input(accumulator, row)
    return collect.extract_output(accumulator)


def test_rows_without_a_label_have_a_limit_of_their_own():
    unlabelled = [
        Rejection(source="a.csv", row=number, column="y", reason=source.NO_LABEL, lines=3)
        for number in range(6)
    ]
    only = collected(*unlabelled)
    with pytest.raises(InputError, match=r"^rows without a label: received 6 of 100 rows") as raised:
        source.check_rejection_limit(only, rows_read=100, limit=0.0)
    assert "--max_unlabelled_fraction=0.06." in raised.value.action
    source.check_rejection_limit(only, rows_read=100, limit=0.0, unlabelled_limit=0.06)
    source.check_rejection_limit(only, rows_read=100, limit=0.06)  # which allows for any rows
    both = collected(*unlabelled, Rejection(source="a.csv", row=9, reason="3 cells in place of 1"))
    with pytest.raises(InputError, match="6 × no label") as raised:
        source.check_rejection_limit(both, rows_read=100, limit=0.0)
    assert "--max_rejected_fraction=0.01 --max_unlabelled_fraction=0.06. The first" in raised.value.action
    with pytest.raises(InputError, match=r"received 1 of 100 rows \(1 × 3 cells") as raised:
        source.check_rejection_limit(both, rows_read=100, limit=0.0, unlabelled_limit=0.06)
    assert "The first of them: a.csv row 9: 3 cells" in raised.value.action
    source.check_rejection_limit(both, rows_read=100, limit=0.01, unlabelled_limit=0.06)
    with pytest.raises(InputError, match=r"received 7 of 100 rows"):  # too many of one kind: all count
        source.check_rejection_limit(both, rows_read=100, limit=0.06, unlabelled_limit=0.05)


@pytest.mark.parametrize("of", [7, 50, 90, 100, 1_000])
def test_the_fraction_that_an_error_names_is_enough(of: int):
    """0.29 * 100 is 28.999999999999996 in floats."""
    for rows in range(1, of + 1):
        rejected = source.Rejected(reasons={source.NO_LABEL: rows}, listed=())
        share = float(f"{source.share_needed(rows, of):g}")
        source.check_rejection_limit(rejected, rows_read=of, limit=0.0, unlabelled_limit=share)
        source.check_rejection_limit(rejected, rows_read=of, limit=share)
        assert share - rows / of < 0.001 + 1e-9
        with pytest.raises(InputError, match="rows without a label"):
            source.check_rejection_limit(rejected, rows_read=of, limit=(rows - 0.01) / of)


def test_a_byte_that_is_not_utf_8_is_shown_with_one_backslash():
    row = Rejection(source="a.txt", row=7, reason="not UTF-8", raw=source.excerpt(b"Gr\xfc\x1b\xdfe"))
    rejected = Rejected(reasons={"not UTF-8": 1}, listed=(row,))
    with pytest.raises(InputError, match=r"1 of 9 documents .*row 7: not UTF-8: 'Gr\\xfc\\x1b\\xdfe'"):
        source.check_rejection_limit(rejected, rows_read=9, limit=0.1, what="documents")


def test_doubtful_rows_are_told_and_not_counted():
    collect = source.CollectRejected()
    parts = [collect.create_accumulator() for _ in range(2)]
    for number in range(6):
        row = Rejection(source="a.csv", row=9 - number, reason=source.SEVERAL_ROWS, raw="x", is_kept=True)
        collect.add_input(parts[number % 2], row)
    rejected = collect.extract_output(collect.merge_accumulators(parts))
    assert rejected.rows == 0
    [told] = source.format_doubts(rejected.doubts, rejected.doubtful)
    assert told.startswith(f"a.csv line 4: {source.SEVERAL_ROWS} (6 such rows).")
    assert "--quote=none" in told


def test_names_that_hold_several_are_a_matter_of_the_delimiter():
    assert "--delimiter" in cause_of_names(["city;x"], otherwise="no")
    assert cause_of_names(["city", "x"], otherwise="no") == "no"


def test_the_list_of_rejected_rows(tmp_path: pathlib.Path):
    listed = (
        Rejection(source="größe.csv", row=7, column="age", reason="not a number", raw="\t?"),
        Rejection(source="stray.png", row=None, reason="not at <input>/<class>/<file>"),
    )
    source.save_rejections(
        Rejected(reasons={"not a number": 1}, listed=listed), tmp_path / "rejected" / "rejected.jsonl"
    )
    assert (tmp_path / "rejected" / "rejected.jsonl").read_bytes() == (
        '{"source": "größe.csv", "row": 7, "column": "age", "reason": "not a number", "raw": "\\t?"}\n'
        '{"source": "stray.png", "row": null, "column": null, "reason": "not at <input>/<class>/<file>", '
        '"raw": ""}\n'
    ).encode()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        *(("encoding", "no-such"), ("encoding", "\0"), ("encoding", "rot13"), ("delimiter", "ab")),
        *(("quote", "ab"), ("quote", "x"), ("escape", "\n"), ("escape", "no")),
        *(("header", "perhaps"), ("column_names", ["a", "a"]), ("column_names", "a")),
    ],
)
def test_what_cannot_be_is_refused(flag: str, value: object):
    with pytest.raises(InputError, match=f"raw_files, field '{flag}'"):
        source_flags._known("csv", {flag: value})


def test_what_can_be_is_kept():
    remembered = {"encoding": "cp1252", "delimiter": "\t", "header": "no", "text_unit": "line"}
    remembered |= {"quote": "none", "escape": "\\"}
    assert source_flags._known("csv", remembered) == {
        name: value for name, value in remembered.items() if name != "text_unit"
    }


def test_rows_that_end_before_empty_cells_get_them_by_a_command():
    cause = likely_cause({"3 cells in place of 4": 30, "2 cells in place of 4": 4}, rows=100)
    command = re.search("python3 -c '(.*)' < FILE", cause)[1]
    rows = "a,b,c,d\n1,2\n3,4,5\n"
    run = subprocess.run(
        [sys.executable, "-c", command], input=rows, capture_output=True, text=True, check=True
    )
    assert run.stdout == "a,b,c,d\n1,2,,\n3,4,5,\n"
    for other in ("5 cells in place of 4", "1 cells in place of 4"):
        assert "FILE" not in likely_cause({"3 cells in place of 4": 30, other: 4}, rows=100)

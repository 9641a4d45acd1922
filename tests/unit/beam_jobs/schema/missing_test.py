"""Conventions for "no value", each told with the flag that makes it missing; the flag is then followed."""

import csv
import datetime
import pathlib
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_jobs.cells import typed
from beam_jobs.schema.proposal import propose_from
from beam_jobs.schema.table import Proposal, propose
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.parquet import ParquetFiles
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Datetime
from tests.shared.missing_conventions import ROWS, TAKEN, TOLD, Draw, cells_with, day, degrees
from tests.unit.beam_jobs.schema.profiles import profile


def proposal_of(tmp_path: pathlib.Path, columns: dict[str, list[str]], **options) -> Proposal:
    path = tmp_path / "some.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    return propose_from(CsvFiles(), [Input(location=str(path))], max_rows=10_000, **options)


def flags_in(remark: str, flag: str) -> list[str]:
    """The values of that flag which a remark gives for the shell."""
    words = shlex.split(remark.rpartition(": ")[2].removesuffix("."))
    assert all(word.startswith(f"--{flag}=") for word in words)
    return [word.removeprefix(f"--{flag}=") for word in words]


def test_each_convention_is_told_with_the_flag_that_makes_it_missing(tmp_path):
    columns = {f"c{at}": cells_with(*convention) for at, convention in enumerate(TOLD)}
    columns["y"] = [*map(str, range(ROWS + 2))]
    told = [remark for remark in proposal_of(tmp_path, columns).review if "--missing=" in remark]
    missing = [value for remark in told for value in flags_in(remark, "missing")]
    assert missing == [f"c{at}={marker}" for at, (_, marker) in enumerate(TOLD)]
    followed = proposal_of(tmp_path, columns, missing=missing)
    assert not [remark for remark in followed.review if "--missing=" in remark]
    for at, (_, marker) in enumerate(TOLD):
        feature, cells = followed.schema[f"c{at}"], columns[f"c{at}"]
        parsed = typed.parse(feature, pa.array(cells))
        assert not parsed.problems
        assert parsed.values.is_null().to_pylist() == [cell == marker for cell in cells]


@pytest.mark.parametrize(("draw", "marker"), TAKEN)
def test_what_is_taken_as_missing_is_told(tmp_path, draw: Draw, marker: str):
    columns = {"c": cells_with(draw, marker), "y": [*map(str, range(ROWS + 2))]}
    proposal = proposal_of(tmp_path, columns)
    (remark,) = [remark for remark in proposal.review if "taken as missing" in remark]
    assert marker in remark and f"{columns['c'].count(marker):,}" in remark
    parsed = typed.parse(proposal.schema["c"], pa.array(columns["c"]))
    assert parsed.values.is_null().to_pylist() == [cell == marker for cell in columns["c"]]


@pytest.mark.parametrize(("draw", "marker"), [pair for pair in TOLD + TAKEN if pair[0] is not day])
def test_in_a_label_it_is_told_first(tmp_path, draw: Draw, marker: str):
    columns = {"a": cells_with(degrees, "-200"), "y": cells_with(draw, marker)}
    first, *_ = proposal_of(tmp_path, columns, label="y").review
    assert first.startswith("'y': ") and marker in first and f"({columns['y'].count(marker):,} " in first
    flag = "missing" if "--missing=" in first else "not_missing"
    followed = proposal_of(tmp_path, columns, label="y", **{flag: flags_in(first, flag)})
    problems = typed.parse(followed.schema["y"], pa.array(columns["y"])).problems
    rejected = {row: "missing" for row, cell in enumerate(columns["y"]) if cell == marker}
    assert problems == (rejected if flag == "missing" else {})
    if flag == "missing":  # as the next remark says, which names what convert needs
        assert f"{len(rejected)} rows have no label" in followed.review[0]
        share = float(followed.review[0].rpartition("=")[2].removesuffix("."))
        assert len(rejected) / (ROWS + 2) <= share <= len(rejected) / (ROWS + 2) + 0.001


def test_a_class_of_its_own_that_looks_like_a_missing_one_can_be_kept():
    column = profile(*30 * ["NA"], *30 * ["SA"], *30 * ["EU"], name="region")
    rows = profile(*range(90), name="x")
    first, *_ = propose([rows, column], name="t", label="region").review
    assert flags_in(first, "not_missing") == ["region=NA"]
    kept = propose([rows, column], name="t", label="region", not_missing=["region=NA"])
    assert kept.schema["region"].classes == ("EU", "NA", "SA")
    assert typed.parse(kept.schema["region"], pa.array(["NA", "EU"])).values.to_pylist() == [1, 0]


@pytest.mark.parametrize(
    ("classes", "odd"), [((0, 1, -1), "-1"), ((0, 1, 9), "9"), ((0, 1, 99), "99"), ((0, 1, 2), "")]
)
def test_a_class_that_is_unlike_the_others_is_told(classes: tuple[int, ...], odd: str):
    columns = [profile(*range(60), name="x"), profile(*20 * classes, name="y")]
    first, *_ = propose(columns, name="t", label="y").review
    assert first.endswith(f": --missing=y={odd}.") == bool(odd)
    if odd:
        assert odd not in propose(columns, name="t", label="y", missing=[f"y={odd}"]).schema["y"].classes


def test_a_marker_is_missing_in_every_spelling_and_in_all_columns(tmp_path):
    columns = {"a": ["-200", "-200.0", "1.5", "2.5"], "b": ["3.5", "-2e2", "4.5", "5.5"], "c": [*"wxyy"]}
    schema = proposal_of(tmp_path, columns, missing=["-200"]).schema
    for name, expected in (("a", [None, None, 1.5, 2.5]), ("b", [3.5, None, 4.5, 5.5])):
        assert typed.parse(schema[name], pa.array(columns[name])).values.to_pylist() == expected
    assert schema["c"].missing == "reject"


def test_typed_numbers_and_dates_are_compared_too(tmp_path):
    nothing = datetime.date(1900, 1, 1)
    days = [nothing, nothing, *(datetime.date(2024, 1, 1 + at) for at in range(28))]
    numbers = [-200.0, -200.0, *(at / 8 for at in range(28))]
    columns = {"on": days, "at": [datetime.datetime(*day.timetuple()[:6]) for day in days], "x": numbers}
    pq.write_table(pa.table(columns), tmp_path / "some.parquet")
    inputs = [Input(location=str(tmp_path / "some.parquet"))]
    told = propose_from(ParquetFiles(), inputs, max_rows=100).review
    missing = [value for remark in told if "--missing=" in remark for value in flags_in(remark, "missing")]
    assert missing == ["on=1900-01-01", "at=1900-01-01 00:00:00.000000", "x=-200"]
    schema = propose_from(ParquetFiles(), inputs, max_rows=100, missing=missing).schema
    for name, cells in columns.items():
        assert typed.parse(schema[name], pa.array(cells)).values.null_count == 2
    assert isinstance(schema["on"], Datetime)


def test_what_the_flags_name_must_be_there():
    columns = [profile("1.5", "2.5", name="a=b"), profile("x", "y", "y", name="d")]
    proposal = propose(columns, name="t", label=None, missing=["a=b=7", "-5"])
    assert "'a=b': '7' of --missing is in none of the rows." in proposal.review
    assert "'-5' of --missing or --not_missing is in no column." in proposal.review
    with pytest.raises(InputError, match=r"--missing=dd=7: received the column 'dd'; .*Did you mean 'd'"):
        propose(columns, name="t", label=None, missing=["dd=7"])

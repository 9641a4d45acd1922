"""Which columns are taken as dates, how they are written, and what is said of them."""

import pytest

from beam_jobs.schema.datetimes import unread_dates
from beam_jobs.schema.features import feature_remarks, propose_feature
from beam_jobs.schema.table import propose
from pipeline.data.schema.feature_types import Datetime
from tests.unit.beam_jobs.schema.profiles import profile


@pytest.mark.parametrize(
    ("values", "format"),
    [
        (("2024-02-29", "1969-12-31"), "%Y-%m-%d"),
        (("2024-02-29T12:00:00Z", "2024-03-01 12:00:00.5+02:00"), "%Y-%m-%d"),
        (("31/12/2024", "01/02/2024"), "%d/%m/%Y"),
        (("12/31/2024 3:05 PM", "1/2/2024 12:00 AM"), "%m/%d/%Y"),
        (("1.2.2024", "28.12.2024"), "%d.%m.%Y"),
        (("20240131", "20231231"), "%Y%m%d"),
    ],
)
def test_dates_are_recognised_with_their_format(values: tuple[str, ...], format: str):
    assert propose_feature(profile(*values)) == Datetime(name="c", format=format)


@pytest.mark.parametrize(
    "values",
    [
        ("2024-02-29", "hello", "bye"),
        ("20245555", "20240101"),
        ("31415926", "27182818"),
        ("2024", "2023"),
        ("1-2", "3-4"),
    ],
)
def test_what_is_no_date_is_of_another_kind(values: tuple[str, ...]):
    assert propose_feature(profile(*values)).kind != "datetime"


def test_no_date_is_marked_as_missing():
    feature = propose_feature(profile("2024-02-29", "0000-00-00", "NA", "2024-03-01"))
    assert feature == Datetime(name="c", missing="mark", clean=feature.clean)
    assert feature.clean.null_markers == ("", "0000-00-00", "NA")


def test_evidence_and_remarks_say_what_was_seen():
    column = profile("01/02/2024", "03/04/2024 10:00", name="when")
    feature = propose_feature(column)
    assert (feature.evidence["earliest"], feature.evidence["latest"]) == (
        "2024-01-02T00:00:00",
        "2024-03-04T10:00:00",
    )
    assert list(feature_remarks(column, feature)) == [
        "'when': dates as %m/%d/%Y, 2024-01-02T00:00:00 … 2024-03-04T10:00:00; local times are in UTC.",
        "'when': the dates could also be %d/%m/%Y. If so, change 'format'.",
    ]


def test_a_few_dates_that_do_not_exist_are_told():
    column = profile(*(["2024-01-01"] * 199), "2023-02-29", name="when")
    remarks = list(feature_remarks(column, propose_feature(column)))
    assert remarks[1] == "'when': 1 rows are no such dates ('2023-02-29') and will be rejected."


def test_dates_that_all_differ_are_no_id():
    column = profile(*(f"2024-01-01 12:{minute:02}" for minute in range(60)), name="when")
    assert propose([column], name="s", label=None).schema.features == (Datetime(name="when"),)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("2024-01-05", "17/03/2024", "Jan 05, 2025"), "'2024-01-05', '17/03/2024', 'Jan 05, 2025'"),
        ((*(f"2024-01-{day}" for day in range(10, 31)), "17/03/2024"), "'2024-01-10', '17/03/2024'"),
        (("5-Jan-2024", "5-Jan-2024", "17-Mär-2024 10:00"), "'5-Jan-2024'"),
        (("31.12.24", "01.02.24"), "'31.12.24'"),
    ],
)
def test_dates_that_no_one_format_reads_are_left_out_with_an_example_of_each(values, shown: str):
    proposal = propose([profile(*values, name="when"), profile("1.5", "2.5")], name="s", label=None)
    why = f"dates that no one format reads ({shown}), which have to be written alike, as 2024-12-31"
    assert proposal.schema.ignore == {"when": why}


@pytest.mark.parametrize(
    "values", [("1.2.3", "1.2.10"), ("5-Main-24", "6-Main-24"), ("2024-01-05", "none", "b")]
)
def test_what_only_resembles_dates_is_not_left_out_as_dates(values: tuple[str, ...]):
    assert not unread_dates(profile(*values))

"""Which columns are taken as dates, how they are written, and what is said of them."""

import json
import re

import pytest

from beam_jobs.schema.datetimes import unread_dates
from beam_jobs.schema.features import propose_feature, why_useless
from beam_jobs.schema.remarks import feature_remarks
from beam_jobs.schema.table import propose
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Datetime
from pipeline.data.schema.schema import Schema, split_by_from_json
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
        (("20240101 7:05", "20231231 17:05"), "%Y%m%d"),
        (("20250210070000", "20250210070500"), "%Y%m%d%H%M%S"),
        (("202502100700", "202502100705"), "%Y%m%d%H%M%S"),
        (("20250210T070000Z", "20250210T070500.5Z"), "%Y%m%d%H%M%S"),
        (("01/02/99", "01/13/00"), "%m/%d/%y"),
        (("13/02/99", "01/12/00"), "%d/%m/%y"),
        (("31.12.24", "01.02.1999 7:05"), "%d.%m.%y"),
        (("99-02-01", "00-02-29"), "%y-%m-%d"),
        (("01-Jan-99", "28-FEB-00 7:05 PM"), "%d-%b-%y"),
        (("01-Jan-1999", "1-sept-2000"), "%d-%b-%Y"),
        (("1 January 1999", "28 Feb 2000"), "%d %b %Y"),
        (("Fri, 01 Jan 1999 07:00:00 GMT", "Sun, 03 Jan 1999 07:00:00 GMT"), "%d %b %Y"),
        (("Jan 1, 1999", "March 3rd 2000 07:05"), "%b %d, %Y"),
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
        ("20245555070000", "20240101070000"),
        ("10.0.11", "10.1.2"),
        ("12-34-56", "20-45-67"),
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
        "'when': dates as %m/%d/%Y, 2024-01-02T00:00:00 … 2024-03-04T10:00:00; local times are in UTC. "
        "If not, change 'zone'.",
        "'when': the dates could also be %d/%m/%Y. If so: --date_format=when=%d/%m/%Y.",
    ]
    followed = propose([column], name="s", label=None, date_format=["when=%d/%m/%Y"]).schema["when"]
    assert (followed.format, followed.evidence["latest"]) == ("%d/%m/%Y", "2024-04-03T10:00:00")


def test_the_century_of_two_digits_is_told_with_the_flag_that_changes_it():
    column = profile("12/31/68", "12/31/69", name="born")
    remarks = list(feature_remarks(column, propose_feature(column)))
    assert remarks == [
        "'born': dates as %m/%d/%y, 1969-12-31T00:00:00 … 2068-12-31T00:00:00; local times are in UTC. "
        "If not, change 'zone'.",
        "'born': two digits of a year are taken as one of 1969 to 2068, as POSIX does. If they are of other "
        "years, such as 1900 to 1999: --first_year=born=1900.",
    ]
    followed = propose([column], name="s", label=None, first_year=["born=1900"]).schema["born"]
    assert followed.evidence["earliest"] == "1968-12-31T00:00:00"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"first_year": ["when=0"]}, "--first_year: received '0'; expected a year from 1 to 9900"),
        ({"date_format": ["when=%x"]}, "--date_format: received '%x'; expected one of %Y-%m-%d"),
        ({"date_format": ["wen=%Y%m%d"]}, "Did you mean 'when'"),
    ],
)
def test_flags_of_dates_are_checked(flags, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        propose([profile("2024-01-01", "2024-01-02", name="when")], name="s", label=None, **flags)


def test_a_few_dates_that_do_not_exist_are_told():
    column = profile(*(["2024-01-01"] * 199), "2023-02-29", name="when")
    remarks = list(feature_remarks(column, propose_feature(column)))
    assert remarks[1] == (
        "'when': '2023-02-29' (1 of 200 rows) will be rejected, as no such dates: convert needs "
        "--max_rejected_fraction=0.005. If they mean that there is none: --missing=when=2023-02-29."
    )


@pytest.mark.parametrize(
    ("date", "none"),
    [
        ("2024-01-0{}", "2024-02-30"),
        ("2024010{}123000", "99999999999999"),
        ("2024-01-0{} 00:00:00.000", "<value out of range: 2305843009213693952>"),
    ],
)
def test_dates_that_do_not_exist_make_a_column_of_dates_no_other_column(date: str, none: str):
    """Up to 5% of the rows; of other values, such as words, up to 1%."""
    dates = [date.format(day) for day in range(1, 9)] * 10
    assert isinstance(propose_feature(profile(*dates, *[none] * 4, name="when")), Datetime)
    for others in ([none] * 5, ["open", "soon"]):
        assert not isinstance(propose_feature(profile(*dates, *others, name="when")), Datetime)


def test_days_of_many_rows_can_be_tested_on_the_last_ones():
    column = profile(*(f"{day}.11.2026" for day in range(10, 20) for _ in range(6)), name="day")
    remark = list(feature_remarks(column, propose_feature(column)))[-1]
    assert remark.startswith("'day': 60 rows of 10 days. Rows of one day are in train and in test")
    split_by = json.loads(re.search(r'"split_by": (.*}), and', remark)[1])
    assert split_by == {
        "column": "day",
        "first": "train",
        "from": {"validation": "2026-11-18", "test": "2026-11-19"},
    }
    Schema(name="s", features=(propose_feature(column),), split_by=split_by_from_json(split_by))
    one_day = profile(*["10.11.2026"] * 200, *(f"{day}.11.2026" for day in range(11, 15)), name="day")
    birthdays = profile(*(f"{day}.11.2026" for day in range(10, 20) for _ in range(4)), name="day")
    for other in (one_day, birthdays):
        assert "rows of" not in "".join(feature_remarks(other, propose_feature(other)))


def test_dates_that_all_differ_are_no_id():
    column = profile(*(f"2024-01-01 12:{minute:02}" for minute in range(60)), name="when")
    assert propose([column], name="s", label=None).schema.features == (Datetime(name="when"),)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("2024-01-05", "17/03/2024", "5. März 2025"), "'2024-01-05', '17/03/2024', '5. März 2025'"),
        ((*(f"2024-01-{day}" for day in range(10, 31)), "17/03/2024"), "'2024-01-10', '17/03/2024'"),
        (("5-Mai-2024", "5-Mai-2024", "17-Mär-2024 10:00"), "'5-Mai-2024'"),
        (("99.12.31", "99.02.01"), "'99.12.31'"),
        (("2024-W01-1", "2024-W52-7"), "'2024-W01-1'"),
        (("2024-001", "2024-365"), "'2024-001'"),
        (("2024-03-01 10:00 CET", "2024-03-02 10:00 PST"), "'2024-03-01 10:00 CET'"),
        *(
            ((text.format("01"), text.format("02")), repr(text.format("01")))
            for text in (
                "2024-03-{}T10:00:00+01:00[Europe/Zurich]",
                "2024-03-{} 10:00:00 GMT+1",
                "2024-03-{}-10.30.00.123456",
                "2024.03.{}",
                "2024年03月{}日",
                "{}/Mar/2024:10:00:00 +0100",
                "{}MAR2024:10:30:00",
                "{}-MAR-24 10.30.00.000000 AM",
                "{}.03.2024 10:30 Uhr",
                "{} mars 2024",
                "Fri Mar {} 10:00:00 2024",
                "Fri Mar {} 2024 10:00:00 GMT+0100 (CET)",
                "/Date(17000000000{})/",
            )
        ),
    ],
)
def test_dates_that_no_one_format_reads_are_left_out_with_an_example_of_each(values, shown: str):
    proposal = propose([profile(*values, name="when"), profile("1.5", "2.5")], name="s", label=None)
    why = f"dates that no one format reads ({shown}), which have to be written alike, as 2024-12-31"
    assert proposal.schema.ignore == {"when": why}


def test_times_without_a_date_that_all_differ_are_called_so():
    clock = profile(*(f"{n % 24}:{n:02}" for n in range(60)), name="at")
    why = "times of day or durations ('0:00') all differ: write them as numbers, such as minutes"
    assert propose([clock, profile("1.5", "2.5")], name="s", label=None).schema.ignore == {"at": why}


def test_seconds_and_milliseconds_in_one_column_are_told():
    seconds = [1_700_000_000 + 999 * n for n in range(30)]
    told = (
        "'c': some values look like seconds since 1970 (1700000000), others like milliseconds (1700000500000)"
    )
    column = profile(*seconds, *(1000 * second + 500_000 for second in seconds))
    assert any(each.startswith(told) for each in feature_remarks(column, propose_feature(column)))
    for other in (
        profile(*seconds),
        profile(*range(10**9, 10**9 + 10**6, 10**5), 10**13),
        profile(1, 10**12),
    ):
        assert not any("since 1970" in each for each in feature_remarks(other, propose_feature(other)))


@pytest.mark.parametrize(
    "values", [("1.2.3", "1.2.10"), ("5-Main-24", "6-Main-24"), ("2024-01-05", "none", "b")]
)
def test_what_only_resembles_dates_is_not_left_out_as_dates(values: tuple[str, ...]):
    assert not unread_dates(profile(*values))


@pytest.mark.parametrize("values", [("2024-01", "2024-02"), ("May 2024", "June 2024"), ("2024Q1", "2024 Q4")])
def test_months_are_told(values: tuple[str, ...]):
    column = profile(*values, *values)
    told = f"'c': months or quarters ({values[0]!r}) are taken as words. To have them as dates"
    assert any(each.startswith(told) for each in feature_remarks(column, propose_feature(column)))
    assert why_useless(profile(*values)).startswith("months or quarters")


def test_months_in_digits_are_told_where_they_are_more_than_a_year_has():
    for numbers, is_told in ((range(202401, 202413), False), ([*range(202401, 202413), 202501], True)):
        column = profile(*numbers, *numbers)
        assert ("taken as numbers" in "".join(feature_remarks(column, propose_feature(column)))) == is_told


def test_all_units_of_time_since_1970_are_told():
    seconds = [1_700_000_000 + 999 * n for n in range(30)]
    column = profile(
        *seconds, *(10**6 * second for second in seconds), *(10**9 * second for second in seconds)
    )
    told = "".join(feature_remarks(column, propose_feature(column)))
    assert "others like microseconds (1700000000000000), others like nanoseconds (17000000" in told


def test_times_of_day_that_repeat_are_told():
    column = profile("7:05", "7:05", "8:15")
    assert "times of day or durations ('7:05') are taken as words" in "".join(
        feature_remarks(column, propose_feature(column))
    )


def test_words_among_dates_that_all_differ_are_named_as_what_keeps_them_from_dates():
    column = profile(*(f"2024-01-01 12:{minute:02}" for minute in range(60)), "open", "pending")
    assert why_useless(column) == (
        "mostly dates as %Y-%m-%d, but not 'open', 'pending': correct these, or name them by --missing"
    )

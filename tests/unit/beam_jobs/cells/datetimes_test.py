"""Points in time from text and timestamps, held against Python's datetime; what is no date is named."""

import datetime
import zoneinfo

import pyarrow as pa
import pytest

from beam_jobs.cells.text import SHOWN_TWICE
from beam_jobs.cells.typed import parse
from pipeline.data.schema.feature_types import Datetime, Numeric
from tests.shared.moments import is_skipped, is_twice, microseconds

ZURICH = zoneinfo.ZoneInfo("Europe/Zurich")


def parsed(feature: Datetime, *cells: str) -> tuple[list[int | None], dict[int, str]]:
    column = parse(feature, pa.array(cells))
    return column.values.to_pylist(), dict(column.problems)


@pytest.mark.parametrize(
    ("format", "cell", "expected"),
    [
        ("%Y-%m-%d", "2024-02-29", (2024, 2, 29)),
        ("%Y-%m-%d", "1900-03-01T00:00Z", (1900, 3, 1)),
        ("%Y-%m-%d", "0001-01-01 00:00:00", (1, 1, 1)),
        ("%Y-%m-%d", "9999-12-31 23:59:59.999999", (9999, 12, 31, 23, 59, 59, 999_999)),
        ("%Y-%m-%d", "2024-01-01T01:30:00+05:30", (2023, 12, 31, 20)),
        ("%Y-%m-%d", "2024-01-01 01:30 -0800", (2024, 1, 1, 9, 30)),
        ("%Y-%m-%d", "2024-01-01 01:30+02", (2023, 12, 31, 23, 30)),
        ("%Y-%m-%d", "2024-01-01 01:30:00.123456789", (2024, 1, 1, 1, 30, 0, 123_456)),
        ("%Y/%m/%d", "2024/1/2 3:04", (2024, 1, 2, 3, 4)),
        ("%m/%d/%Y", "12/31/1969 12:00 AM", (1969, 12, 31)),
        ("%m/%d/%Y", "1/2/2024 12:30:15 pm", (2024, 1, 2, 12, 30, 15)),
        ("%d/%m/%Y", "31/12/1969", (1969, 12, 31)),
        ("%d.%m.%Y", "1.2.2024 14:00", (2024, 2, 1, 14)),
        ("%d-%m-%Y", "01-02-2024", (2024, 2, 1)),
        ("%m-%d-%Y", "01-02-2024", (2024, 1, 2)),
        ("%Y%m%d", "20240229", (2024, 2, 29)),
        ("%Y%m%d", "20240101 7:05", (2024, 1, 1, 7, 5)),
        ("%Y%m%d%H%M%S", "20250210070000", (2025, 2, 10, 7)),
        ("%Y%m%d%H%M%S", "202502100705", (2025, 2, 10, 7, 5)),
        ("%Y%m%d%H%M%S", "20250210T070509.25+0100", (2025, 2, 10, 6, 5, 9, 250_000)),
        ("%m/%d/%y", "01/02/69", (1969, 1, 2)),
        ("%m/%d/%y", "1/2/68 7:05 PM", (2068, 1, 2, 19, 5)),
        ("%m/%d/%y", "1/2/1912", (1912, 1, 2)),
        ("%y-%m-%d", "99-02-01", (1999, 2, 1)),
        ("%d-%b-%y", "01-JAN-99", (1999, 1, 1)),
        ("%d %b %Y", "1 January 1999", (1999, 1, 1)),
        ("%b %d, %Y", "Sept. 1st, 1999", (1999, 9, 1)),
    ],
)
def test_formats(format: str, cell: str, expected: tuple[int, ...]):
    moment = datetime.datetime(*expected, tzinfo=datetime.UTC)
    assert parsed(Datetime(name="t", format=format), cell) == ([microseconds(moment)], {})


@pytest.mark.parametrize("digits", range(100))
@pytest.mark.parametrize("first_year", [1900, 1925, 1969])
def test_two_digits_are_one_of_the_hundred_years(first_year: int, digits: int):
    feature = Datetime(name="t", format="%m/%d/%y", first_year=first_year)
    [year] = [year for year in range(first_year, first_year + 100) if year % 100 == digits]
    moment = microseconds(datetime.datetime(year, 1, 2, tzinfo=datetime.UTC))
    assert parsed(feature, f"01/02/{digits:02}") == ([moment], {})
    posix = datetime.datetime.strptime(f"{digits:02}", "%y").year
    assert first_year != 1969 or year == posix


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("2023-02-29", "no such date or time"),
        ("1900-02-29", "no such date or time"),
        ("2024-13-01", "no such date or time"),
        ("2024-00-01", "no such date or time"),
        ("2024-04-31", "no such date or time"),
        ("0000-01-01", "no such date or time"),
        ("2024-01-01 24:00", "no such date or time"),
        ("2024-01-01 13:00 PM", "no such date or time"),
        ("2024-01-01 12:60", "no such date or time"),
        ("2024-01-01 12:00:60", "no such date or time"),
        ("2024-01-01 12:00+24:00", "no such date or time"),
        ("2024-01-01x", "not a date as %Y-%m-%d"),
        ("01/02/2024", "not a date as %Y-%m-%d"),
        ("10000-01-01", "not a date as %Y-%m-%d"),
        ("٢٠٢٤-01-01", "not a date as %Y-%m-%d"),
        ("1704067200", "not a date as %Y-%m-%d"),
        ("24-01-01", "not a date as %Y-%m-%d"),
        ("", "missing"),
    ],
)
def test_what_is_no_date_is_told(cell: str, reason: str):
    values, problems = parsed(Datetime(name="t"), "2024-01-01", cell)
    assert (values[1], problems) == (None, {1: reason})


@pytest.mark.parametrize("month", [1, 3, 7, 10])
@pytest.mark.parametrize("year", [1850, 1941, 2024, 2100, 9999])
@pytest.mark.parametrize("zone", ["Europe/Zurich", "America/Sao_Paulo", "Australia/Lord_Howe"])
def test_local_times_of_a_zone_are_those_of_python(zone: str, year: int, month: int):
    """Every half hour of a month: that includes the hours that a change of the clocks skips and repeats."""
    start = datetime.datetime(year, month, 1)
    local = [start + datetime.timedelta(minutes=30 * step) for step in range(28 * 48, 31 * 48)]
    info = zoneinfo.ZoneInfo(zone)
    feature, skip = Datetime(name="t", zone=zone), f"a time that the clocks of {zone} skip"
    skipped = {row: skip for row, moment in enumerate(local) if is_skipped(moment, info)}
    twice = {row for row, moment in enumerate(local) if row not in skipped and is_twice(moment, info)}
    expected = [
        None if row in skipped else microseconds(moment.replace(tzinfo=info))
        for row, moment in enumerate(local)
    ]
    for cells in (pa.array(map(str, local)), pa.array(local, pa.timestamp("s"))):
        column = parse(feature, cells)
        assert (column.problems, column.notes.get(SHOWN_TWICE, set())) == (skipped, twice)
        kept = [value for row, value in enumerate(column.values.to_pylist()) if row not in skipped]
        assert kept == [value for value in expected if value is not None]
    assert not parse(feature, pa.array([f"{moment}Z" for moment in local])).problems


def test_a_day_is_there_unless_the_clocks_skip_all_of_it():
    """At midnight the clocks went forward: by an hour in Brazil, by a day in Samoa."""
    day = Datetime(name="t", zone="America/Sao_Paulo", missing="mark")
    first = datetime.datetime(2018, 11, 4, 3, tzinfo=datetime.UTC)  # 01:00 there, 2 h behind
    for cells in (pa.array(["2018-11-04"]), pa.array([datetime.date(2018, 11, 4)])):
        assert parse(day, cells).values.to_pylist() == [microseconds(first)]
    reason = {0: "a time that the clocks of America/Sao_Paulo skip"}
    assert parse(day, pa.array(["2018-11-04 00:00"])).problems == reason
    gone = Datetime(name="t", zone="Pacific/Apia")
    for cells in (pa.array(["2011-12-30"]), pa.array([datetime.date(2011, 12, 30)])):
        assert parse(gone, cells).problems == {0: "a time that the clocks of Pacific/Apia skip"}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_and_dates_of_typed_formats(unit: str):
    moments = [datetime.datetime(1969, 7, 20, 20, 17), None, datetime.datetime(2024, 7, 1, 12)]
    feature = Datetime(name="t", zone="Europe/Zurich", missing="mark")
    local = parse(feature, pa.array(moments, pa.timestamp(unit)))
    assert local.values.to_pylist() == [m and microseconds(m.replace(tzinfo=ZURICH)) for m in moments]
    utc = parse(feature, pa.array(moments, pa.timestamp(unit, "UTC")))
    assert utc.values.to_pylist() == [m and microseconds(m.replace(tzinfo=datetime.UTC)) for m in moments]
    day = parse(Datetime(name="t"), pa.array([datetime.date(2024, 2, 29)]))
    assert day.values.to_pylist() == [microseconds(datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC))]


FAR = [
    (unit, 1 << exponent)
    for unit, exponents in (("s", (40, 45, 62)), ("ms", (53, 62)), ("us", (61,)))
    for exponent in exponents
]


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *((pa.timestamp(unit), count) for unit, count in FAR),
        (pa.date32(), (1 << 31) - 1),
        (pa.date64(), 86_400_000 << 35),
    ],
)
def test_a_date_that_no_calendar_or_unit_holds_is_told(kind: pa.DataType, count: int, sign: int):
    """Some of them, as microseconds in 64 bits, come out as a date of today."""
    cells = pa.array([0, sign * count, None], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    column = parse(Datetime(name="t", missing="mark"), cells)
    assert (column.values.to_pylist(), column.problems) == ([0, None, None], {1: "no such date or time"})


def test_a_number_of_seconds_that_microseconds_cannot_hold_is_told():
    cells = pa.array([253_402_300_799, 1 << 62], pa.timestamp("s"))
    column = parse(Numeric(name="t"), cells)
    assert (column.values.to_pylist(), column.problems) == (
        [253_402_300_799.0, None],
        {1: "no such date or time"},
    )

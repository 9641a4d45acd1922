"""Recognises columns of dates and times, and the format that they are written in."""

import dataclasses
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_jobs.cells.datetimes import from_text
from beam_jobs.cells.text import Problems
from beam_jobs.schema.profiles import IN_NUMBERS, ColumnProfile, excerpt, flags_of_values
from beam_jobs.sources.source import MOST_WRONG, share_needed
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Datetime
from pipeline.data.schema.times import FIRST_YEAR, FORMATS, OF_DIGITS

_TRIED = 20  # values from which the possible formats are found
_ZEROS = re.compile(r"[0 :./T-]+")  # 0000-00-00 00:00, which databases write for "no date"
_WRONG = 0.01  # share of the rows with a value; if more are wrong, the column is something else
_IN_CENTURIES = 0.8  # share of the values that are tried; the others may be 99999999
_BEYOND = "<value out of range:"  # how Arrow writes a time that no calendar holds
_MOSTLY = 0.5  # share of the rows from which a remark says that the column is mostly dates
_MONTH = (  # in English and German; formats know the English ones
    "(?:jan(?:uary?)?|feb(?:ruary?)?|m[aä]r(?:ch|z)?|apr(?:il)?|ma[iy]|jun[ei]?|jul[yi]?|aug(?:ust)?"
    "|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)"
)
_YEAR = "(?:[0-9]{4}|[0-9]{2})"
_UNREAD = re.compile(  # dates that no format reads
    rf"(?:(?:[a-z]{{2,9}},? +)?(?:[0-9]{{1,2}}([./-])[0-9]{{1,2}}\1{_YEAR}"
    rf"|[0-9]{{1,2}}[. /-]*{_MONTH}[. ,/-]*{_YEAR}"
    rf"|{_MONTH}[. ]+[0-9]{{1,2}}(?:st|nd|rd|th)?[, ]+{_YEAR}"
    rf"|{_MONTH} +[0-9]{{1,2}}(?=,? +[0-9]{{1,2}}:[0-9]{{2}}))"  # with the year at the end
    r"|[0-9]{1,2}[. ]+(?:de )?[^\W\d_]{3,10}[.,]?(?: de)? (?:19|20)[0-9]{2}"  # in other languages
    r"|[0-9]{4}-?W[0-9]{2}(?:-?[1-7])?|[0-9]{4}-[0-3][0-9]{2}"  # weeks, and days of the year
    r"|(?:19|20)[0-9]{2}\.[01][0-9]\.[0-3][0-9]|[0-9]{4}年[0-9]{1,2}月[0-9]{1,2}日|/Date\([0-9]+\)/"
    r"|[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}(?=[ T-].*[0-9]{2}.*[^0-9Z]))"  # with a zone
    r"(?:[ T,:-]+[0-9]{1,2}[.:][0-9]{2}.*)?",
    re.IGNORECASE,
)
_MONTHS = re.compile(
    r"(?:19|20)[0-9]{2}[-/.](?:0[1-9]|1[0-2])|(?:0[1-9]|1[0-2])[-/.](?:19|20)[0-9]{2}"
    rf"|{_MONTH}[. /-]*{_YEAR}|(?:19|20)[0-9]{{2}}[ -]?Q[1-4]|Q[1-4][ /-]?(?:19|20)[0-9]{{2}}",
    re.IGNORECASE,
)
_MONTHS_IN_DIGITS = re.compile("(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])")
_YEAR_OF_MONTHS = 13  # more different months than a year has
_CLOCK = re.compile(
    r"-?(?:[0-9]+ days?,? )?[0-9]{1,3}(?::[0-9]{2}){1,2}(?:[.,][0-9]+)?(?: ?[ap]m)?", re.IGNORECASE
)
_CENTURIES = ("19", "20")  # a number of eight digits or more is a date only in these centuries
_SHORT = "%y"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Fit:
    """The fit of a format to a column: moments of its values, and the values that it does not read."""

    format: str
    moments: np.ndarray
    wrong: tuple[str, ...]
    rows_wrong: int


def propose_datetime(profile: ColumnProfile) -> Datetime | None:
    """The feature of a column of dates; None if it is something else."""
    fits = _fits(profile)
    if not fits:
        return None
    best = fits[0]
    markers = ("", *sorted({*filter(None, profile.markers), *_markers(best.wrong)}))
    missing = sum(profile.counts.get(marker, 0) for marker in markers)
    first, last = best.moments.min(), best.moments.max()
    first, last = (np.datetime64(int(end), "us").astype("datetime64[s]") for end in (first, last))
    return Datetime(
        name=profile.name,
        format=best.format,
        first_year=profile.first_year,
        clean=Clean(null_markers=markers),
        missing="mark" if missing else "reject",
        evidence=profile.evidence() | {"earliest": str(first), "latest": str(last)},
    )


def datetime_remarks(profile: ColumnProfile, feature: Datetime) -> Iterator[str]:
    """Yields what the user should check of a proposed date."""
    fits = _fits(profile)
    best, others = fits[0], list(_as_good(fits))
    seen = f"{feature.evidence['earliest']} … {feature.evidence['latest']}"
    zone = f"local times are in {feature.zone}. If not, change 'zone'."
    yield f"'{profile.name}': dates as {best.format}, {seen}; {zone}"
    if others:
        flag = shlex.quote(f"--date_format={profile.name}={others[0]}")
        yield f"'{profile.name}': the dates could also be {' or '.join(others)}. If so: {flag}."
    if _SHORT in best.format:
        first, flag = feature.first_year, shlex.quote(f"--first_year={profile.name}=1900")
        rule = ", as POSIX does" if first == FIRST_YEAR else ""
        yield (
            f"'{profile.name}': two digits of a year are taken as one of {first} to {first + 99}{rule}. "
            f"If they are of other years, such as 1900 to 1999: {flag}."
        )
    bad = [value for value in best.wrong if value not in feature.clean.null_markers]
    if bad:
        first = ", ".join(repr(excerpt(value)) for value in bad[:3])
        rows = sum(profile.values[value] for value in bad)
        flags = flags_of_values("missing", profile, bad[:3])
        needed = f"--max_rejected_fraction={share_needed(rows, profile.rows):g}"
        yield (
            f"'{profile.name}': {first} ({rows:,} of {profile.rows:,} rows) will be rejected, as no such "
            f"dates: convert needs {needed}. If they mean that there is none: {flags}."
        )


def _as_good(fits: Sequence[_Fit]) -> Iterator[str]:
    """Yields the first format, which is the best, and those that read as many values but give other dates."""
    seen = [fits[0]]
    for fit in fits[1:]:
        is_new = not any(np.array_equal(fit.moments, other.moments) for other in seen)
        if is_new and fit.rows_wrong == fits[0].rows_wrong:
            seen.append(fit)
            yield fit.format


def moments_of(profile: ColumnProfile, feature: Datetime) -> dict[str, float]:
    """The values that are dates, each in microseconds since 1970."""
    texts = list(profile.values)
    moments = from_text(feature, pa.array(texts, pa.string()), Problems()).to_pylist()
    return {text: float(moment) for text, moment in zip(texts, moments, strict=True) if moment is not None}


def mostly_dates(profile: ColumnProfile) -> tuple[str, Sequence[str]] | None:
    """The format that reads most, but not enough, of a column, and the values that it does not read."""
    fits = _fits(profile, most_wrong=_MOSTLY)
    return (fits[0].format, fits[0].wrong) if fits else None


def unread_dates(profile: ColumnProfile) -> tuple[str, ...]:
    """One date of each spelling, for a column whose dates no single format reads; empty for other columns."""
    values = {value: n for value, n in profile.values.items() if value not in IN_NUMBERS}
    if profile.numbers is not None or profile.are_images or profile.holds_lists or _fits(profile):
        return ()
    if not _spellings(dict(itertools.islice(values.items(), 0, None, 1 + len(values) // _TRIED))):
        return ()
    return _spellings(values)


def are_months(profile: ColumnProfile) -> bool:
    """Returns whether the values are months or quarters: `2026-05`, `May 2026`, `2026Q2`; or `202605`, if
    there are more than a year has.
    """
    if profile.numbers is None:
        return bool(profile.values) and all(map(_MONTHS.fullmatch, profile.values))
    return len(profile.values) >= _YEAR_OF_MONTHS and all(map(_MONTHS_IN_DIGITS.fullmatch, profile.values))


def are_times_of_day(profile: ColumnProfile) -> bool:
    """Returns whether the values are times without a date, or durations: `7:05`, `1:02:03.5`."""
    return bool(profile.values) and all(map(_CLOCK.fullmatch, profile.values))


def _spellings(values: Mapping[str, int]) -> tuple[str, ...]:
    """Returns one value for each format that is needed to read all values; empty if some are no dates."""
    left, examples = dict(values), []
    for format in FORMATS:
        wrong = set(left if format in OF_DIGITS else _fit(format, left).wrong)
        examples += [value for value in left if value not in wrong][:1]
        left = {value: rows for value, rows in left.items() if value in wrong}
    unread = [value for value in left if _UNREAD.fullmatch(value)]
    rows = sum(left.values()) - sum(left[value] for value in unread)
    return tuple(examples + unread[:1]) if rows <= _WRONG * sum(values.values()) else ()


def _fits(profile: ColumnProfile, *, most_wrong: float = _WRONG) -> list[_Fit]:
    """Formats that read the column, the best first; among equals the one that FORMATS lists first."""
    values = profile.values
    if not values or profile.are_images or profile.holds_lists:
        return []
    # No other date reads as a number, so a wide table of numbers need not be tried in every format.
    formats = profile.date_formats or (FORMATS if profile.numbers is None else OF_DIGITS)
    fits = [_fit(format, values, profile.first_year) for format in _possible(values, formats)]
    rows = sum(values.values())
    return sorted(
        (fit for fit in fits if _is_close(fit, values, rows=rows, most_wrong=most_wrong)),
        key=lambda fit: fit.rows_wrong,
    )


def _is_close(fit: _Fit, values: Mapping[str, int], *, rows: int, most_wrong: float) -> bool:
    """Returns whether few rows are wrong, or some more that look like dates that do not exist: 2023-02-29."""
    if fit.rows_wrong <= most_wrong * rows:
        return True
    if fit.rows_wrong > MOST_WRONG * rows:
        return False
    shapes = {_shape(value) for value in values.keys() - {*fit.wrong}}
    odd = sum(
        values[value] for value in fit.wrong if _shape(value) not in shapes and not value.startswith(_BEYOND)
    )
    return odd <= most_wrong * rows


def _shape(value: str) -> str:
    return re.sub("[0-9]", "9", value)


def _possible(values: Mapping[str, int], formats: Sequence[str]) -> Iterator[str]:
    """Yields the formats that read one of the first values, and not only by chance."""
    first = dict(itertools.islice(values.items(), _TRIED))
    for format in formats:
        is_number = format in OF_DIGITS
        if len(values) < 2 and (is_number or _SHORT in format):
            continue
        if is_number and sum(value.startswith(_CENTURIES) for value in first) < _IN_CENTURIES * len(first):
            continue
        if len(_fit(format, first).moments):
            yield format


def _fit(format: str, values: Mapping[str, int], first_year: int = FIRST_YEAR) -> _Fit:
    problems, texts = Problems(), list(values)
    feature = Datetime(name="date", format=format, first_year=first_year)
    moments = from_text(feature, pa.array(texts, pa.string()), problems)
    wrong = tuple(texts[row] for row in sorted(problems))
    counted = set(wrong) - _markers(wrong)
    return _Fit(
        format=format,
        moments=moments.drop_null().to_numpy(),
        wrong=wrong,
        rows_wrong=sum(values[value] for value in counted),
    )


def _markers(wrong: tuple[str, ...]) -> set[str]:
    """Returns the values that mean "no date", among those that are not dates."""
    zeros = {value for value in wrong if _ZEROS.fullmatch(value)}
    words = set(wrong) - zeros
    is_word = words <= IN_NUMBERS or (len(words) == 1 and not any(map(str.isdigit, "".join(words))))
    return zeros | words if is_word else zeros

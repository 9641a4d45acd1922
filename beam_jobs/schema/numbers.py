"""Recognises numbers written for people: money, percent, units, thousands separators, decimal commas."""

import dataclasses
import re
from collections.abc import Iterator, Mapping

import numpy as np

from beam_jobs.schema.profiles import IN_NUMBERS, NULL_MARKERS, ColumnProfile, is_number, number_written
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.statistics.drift import offset_for

# Other letters before a number, as in INV10024, make an id.
_CURRENCIES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|RSD|UAH|RUB|TRY|ILS|AED|SAR|EGP|"
    "NGN|KES|ZAR|BRL|MXN|ARS|CLP|COP|PEN|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|PKR|BDT"
)
_UNIT = f"[$€£¥₹%]|{_CURRENCIES}"
_BLANKS = (" ", "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}")
# Thousands and decimal marks; where several styles read a column alike, the first is taken.
_STYLES = (
    (",", "."),
    (".", ","),
    ("'", "."),
    ("\N{RIGHT SINGLE QUOTATION MARK}", "."),
    ("\N{NO-BREAK SPACE}", ","),
    ("\N{NARROW NO-BREAK SPACE}", ","),
    (" ", ","),
    (" ", "."),
)
# Files of several countries: `12.5` beside `12,5`. It comes last, where no mark can part thousands.
_MIXED = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:[.,][0-9]+)?")
_MOST_UNITS = 3
_POINT_MAY_PART = re.compile(r"[+-]?(?:[1-9][0-9]{0,2}[.][0-9]{3}|[0-9]{1,3})")
_LEAST_PARTED = 20
# `142 m²`, `80 km/h`: not `1e5`, `007X` or `3.OG`. A column with few different ones is better as categories,
# or holds codes.
_MEASURED = re.compile(
    r"[+-]?(?!0[0-9])[0-9][0-9.,]*[ \N{NO-BREAK SPACE}]?(?P<unit>[^\W\d_][^\s,.;]{0,9}|°[CF]?)"
)
_LEAST_MEASURED = 21


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Style:
    """The clean-up that makes numbers of the values in `counts`: what to remove, and the decimal mark."""

    remove: tuple[str, ...]
    decimal: str
    counts: Mapping[str, int]

    def number(self, value: str) -> float:
        for part in self.remove:
            value = value.replace(part, "")
        return float(value.replace(self.decimal, "."))


def propose_written(profile: ColumnProfile) -> Numeric | None:
    """The feature of a column of numbers that need clean-up; None if it is something else."""
    style = _style(profile)
    if style is None:
        return None
    numbers = [style.number(value) for value in style.counts]
    others = sorted(filter(None, profile.counts.keys() - style.counts.keys()))
    missing = profile.rows - profile.others - sum(style.counts.values())
    return Numeric(
        name=profile.name,
        clean=Clean(null_markers=("", *others), remove=style.remove, decimal=style.decimal),
        missing="mark" if missing else "reject",
        offset=offset_for(np.array(numbers), np.array([*style.counts.values()])),
        evidence=profile.evidence() | {"minimum": min(numbers), "maximum": max(numbers)},
    )


def with_numbers_alone(profile: ColumnProfile) -> ColumnProfile:
    """The profile without the values that are neither numbers nor missing: their rows will be rejected."""
    kept = NULL_MARKERS | IN_NUMBERS | {*profile.declared_values}
    for is_one in (lambda value: any(map(str.isdigit, value)), is_number):
        counts = {value: rows for value, rows in profile.counts.items() if value in kept or is_one(value)}
        found = dataclasses.replace(profile, counts=counts)
        if found.numbers or _style(found):
            break
    return found


def written_numbers(profile: ColumnProfile) -> dict[str, float]:
    """The numbers that the values are read as; empty if they need no clean-up, or are something else."""
    style = _style(profile)
    return {value: style.number(value) for value in style.counts} if style else {}


def written_remarks(profile: ColumnProfile, clean: Clean) -> Iterator[str]:
    """Yields how the most frequent value is read."""
    style = _style(profile)
    if style is None or not clean.rewrites:
        return
    longest = max(style.counts, key=lambda value: (style.decimal in value, len(value), value))
    rows = sum(style.counts.values())
    removed = " ".join(map(repr, clean.remove)) or "nothing"
    yield (
        f"'{profile.name}': {rows:,} values are numbers when {removed} is removed and {clean.decimal!r} "
        f"begins the decimals: {longest!r} is {style.number(longest):g}. If not, change 'clean'."
    )
    yield from _unit_remarks(profile, style)
    pointed = [] if "." in clean.remove else [value for value in style.counts if "." in value]
    if clean.decimal != "." and pointed:
        rows = sum(style.counts[value] for value in pointed)
        yield (
            f"'{profile.name}': {rows:,} values have a point before the decimals, others a comma: "
            f"{pointed[0]!r} is {style.number(pointed[0]):g}. If it parts thousands, write all numbers alike."
        )


def _unit_remarks(profile: ColumnProfile, style: _Style) -> Iterator[str]:
    """Yields a remark where numbers have different units, or some have none."""
    by_unit: dict[str, list[str]] = {}
    units = [part for part in style.remove if _is_unit(part)]
    for value in style.counts:
        by_unit.setdefault(next((unit for unit in units if unit in value), ""), []).append(value)
    if len(by_unit) > 1:
        seen = ", ".join(
            f"{sum(map(style.counts.__getitem__, values)):,} {f'with {unit!r}' if unit else 'without'} "
            f"({values[0]!r} is {style.number(values[0]):g})"
            for unit, values in sorted(by_unit.items(), reverse=True)
        )
        yield f"'{profile.name}': units differ and are left out: {seen}. If they matter, write all in one."


def _is_unit(part: str) -> bool:
    """Returns whether a part that is removed is a unit or a currency."""
    return part.isalnum() or part in "$€£¥₹%°"


def point_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Yields a remark where each point stands before three digits, and so may separate thousands."""
    if not profile.numbers or not all(map(_POINT_MAY_PART.fullmatch, profile.values)):
        return
    parted = sorted(value for value in profile.values if "." in value)
    if len(parted) >= _LEAST_PARTED:
        yield (
            f"'{profile.name}': {parted[-1]!r} is read as {float(parted[-1]):g}, and all others have three "
            """decimals, too. If the point parts thousands, write "clean": {"remove": ["."]}."""
        )


def _style(profile: ColumnProfile) -> _Style | None:
    if profile.numbers or profile.are_images or profile.holds_lists:
        return None
    words = {*profile.markers, *(IN_NUMBERS & profile.counts.keys())}
    counts = {value: n for value, n in profile.counts.items() if value not in words}
    # As among plain numbers, a single word stands for "no number".
    odd = [value for value in counts if not any(map(str.isdigit, value))]
    if len(odd) == 1 and len(counts) > 2:
        del counts[odd[0]]
    unit = _unit(counts)
    is_code = len({*map(len, counts)}) == 1  # such as a telephone number
    for thousands, decimal in _STYLES if counts else ():
        if thousands == " " and is_code:
            continue
        matches = [_body(thousands, decimal).fullmatch(value.removesuffix(unit)) for value in counts]
        if all(matches):
            around = {found[side] for found in matches for side in ("before", "after")}
            units = {*around, unit} - {None, ""}
            used = (thousands, *_BLANKS) if thousands not in _BLANKS else _BLANKS
            remove = (*sorted(units), *(part for part in used if any(part in value for value in counts)))
            if len(units) > _MOST_UNITS or not (remove or decimal != "."):
                return None
            return _Style(remove=remove, decimal=decimal, counts=counts)
    if counts and all(map(_MIXED.fullmatch, counts)) and any("," in value for value in counts):
        return _Style(remove=(), decimal=",", counts=counts)
    return None


def _unit(counts: Mapping[str, int]) -> str:
    """The one unit that all values end in; empty if there is none."""
    found = [_MEASURED.fullmatch(value) for value in counts] if len(counts) >= _LEAST_MEASURED else []
    units = {match["unit"] for match in found} if all(found) else set()
    return units.pop() if len(units) == 1 else ""


def _body(thousands: str, decimal: str) -> re.Pattern:
    blank = f"[{''.join(_BLANKS)}]?"
    number = number_written(thousands, decimal)
    return re.compile(rf"[+-]?(?P<before>{_UNIT})?{blank}[+-]?{number}{blank}(?P<after>{_UNIT})?")

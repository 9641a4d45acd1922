"""What a raw column holds: its distinct values with their counts, and what follows from those."""

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from beam_jobs.proposal.spellings import number_written, sentinels

# Spellings of "no value". A word of the second set may be a category of its own, so it counts as missing only
# among numbers.
NULL_MARKERS = frozenset({"", "?", "NA", "N/A", "n/a", "null", "NULL", "NaN", "nan", "\\N", "#N/A"})
IN_NUMBERS = frozenset({"None", "none", "-", "--", ".", "missing", "unknown", "Unknown", "inf", "-inf"})
_SHOWN = 40  # characters of a value
# Decimals or thousands have it: 1,5 and 1,234,567.5 and 1.234,5
_WITH_COMMA = re.compile(rf"(?=.*,)[+-]?(?:{number_written(',', '.')}|{number_written('.', ',')})")
_IMAGE_NAMES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """`counts` is over text stripped of blanks; `undecodable` values and `images` are not among them.

    Of very many different values only some have a count, so that memory is bounded: the others are `others`.
    """

    name: str
    counts: Mapping[str, int]
    others: int = 0  # values that are not missing and have no count of their own
    undecodable: int = 0
    images: int = 0  # values that are an image's own bytes
    lengths: Mapping[int, int] = dataclasses.field(default_factory=dict)  # rows by the size of their list
    items: Literal["whole", "numbers", "text"] = "whole"  # what lists hold

    @property
    def rows(self) -> int:
        lists = sum(n for length, n in self.lengths.items() if length) if self.holds_lists else 0
        return sum(self.counts.values()) + self.others + self.undecodable + self.images + lists

    @property
    def are_images(self) -> bool:
        """Images, or the paths of image files."""
        paths = [value.lower().endswith(_IMAGE_NAMES) for value in self.values]
        return self.images > 0 or (bool(paths) and all(paths))

    @property
    def holds_lists(self) -> bool:
        """Whether a row has several values."""
        return max(self.lengths, default=0) > 1

    @functools.cached_property
    def markers(self) -> tuple[str, ...]:
        """The values that mean "missing"."""
        return self._words_for_missing + self.sentinels

    @functools.cached_property
    def sentinels(self) -> tuple[str, ...]:
        """The numbers among `markers`, such as -999; only in a column of numbers."""
        rest = {value: n for value, n in self.counts.items() if value not in self._words_for_missing}
        return sentinels(rest) if all(map(is_number, rest)) else ()

    @functools.cached_property
    def _words_for_missing(self) -> tuple[str, ...]:
        plain = NULL_MARKERS & self.counts.keys()
        others = self.counts.keys() - plain
        odd = {value for value in others if not is_number(value)}
        # If a single word keeps a column from numbers, it stands for "no number". A code (01067) does not;
        # nor does, among whole numbers, the only one with a comma for its decimals or thousands.
        is_amount = any(map(_WITH_COMMA.fullmatch, odd)) and all(map(is_whole_number, others - odd))
        is_word = len(odd) == 1 and not is_amount and not any(map(_is_code, odd))
        is_marker = odd <= IN_NUMBERS or is_word
        numbers_but_for_it = len(odd) < len(others) and is_marker
        return tuple(sorted(plain | odd if numbers_but_for_it else plain))

    @functools.cached_property
    def values(self) -> Mapping[str, int]:
        """The counts of what is not missing."""
        return {value: count for value, count in self.counts.items() if value not in self.markers}

    @property
    def distinct(self) -> int:
        """The number of different values; where some have no count, as if those repeated like the others."""
        counted = sum(self.values.values())
        return round(len(self.values) * (1 + self.others / counted)) if self.others else len(self.values)

    @property
    def missing(self) -> int:
        return sum(self.counts[marker] for marker in self.markers)

    @property
    def missing_fraction(self) -> float:
        return self.missing / max(1, self.rows)

    @functools.cached_property
    def numbers(self) -> Sequence[float] | None:
        """The distinct values as numbers; None if one of them is no number, or a code such as `007`."""
        if not self.values or not all(map(is_number, self.values)):
            return None
        return sorted(map(float, self.values))

    @functools.cached_property
    def are_whole_numbers(self) -> bool:
        return self.numbers is not None and all(map(is_whole_number, self.values))

    @property
    def words(self) -> float:
        """Words a value, on average."""
        words = sum(len(value.split()) * count for value, count in self.values.items())
        return words / max(1, sum(self.values.values()))

    def evidence(self) -> dict[str, object]:
        """What the schema file says was seen."""
        most_frequent = sorted(self.values, key=lambda value: (-self.values[value], value))
        seen: dict[str, object] = {
            "rows": self.rows,
            "missing_fraction": round(self.missing_fraction, 6),
        }
        if self.holds_lists:  # their values are not counted
            return seen | {"lengths": {str(length): n for length, n in sorted(self.lengths.items())[:20]}}
        seen |= {"distinct": self.distinct, "examples": [value[:_SHOWN] for value in most_frequent[:5]]}
        if self.numbers:
            seen |= {"minimum": self.numbers[0], "maximum": self.numbers[-1]}
        if self.others:
            seen |= {"distinct_counted": len(self.values)}  # `distinct` is an estimate
        return seen | ({"not_utf8": self.undecodable} if self.undecodable else {})


def shown(value: str) -> str:
    """The start of a value, for messages: a cell may hold megabytes."""
    return value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"


def is_number(value: str) -> bool:
    """Whether `convert` reads it as a number: other digits than 0 to 9 it does not, as `float` does."""
    if not value.isascii():
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return abs(number) != float("inf") and number == number and not _is_code(value) and "_" not in value


def _is_code(value: str) -> bool:
    """Whether a leading zero says something, as in the postcode 01067."""
    return value.lstrip("+-").startswith("0") and value.lstrip("+-0")[:1].isdigit()


def is_whole_number(value: str) -> bool:
    return value.removeprefix("-").isdecimal() and value.isascii()

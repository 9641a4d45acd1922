"""Proposes a feature for one column: what a careful person would declare at first sight of its profile."""

import dataclasses
import math
import re
import shlex
from collections.abc import Callable, Sequence

import numpy as np

from beam_jobs.schema.datetimes import (
    are_months,
    are_times_of_day,
    mostly_dates,
    propose_datetime,
    unread_dates,
)
from beam_jobs.schema.numbers import propose_written
from beam_jobs.schema.profiles import (
    TELLS_APART,
    ColumnProfile,
    excerpt,
    is_number,
    is_whole_number,
    spelling_aliases,
)
from beam_jobs.sources.source import MOST_WRONG
from pipeline.base.errors import InputError
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    FeatureTypeTable,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.statistics.drift import float64_loses, offset_for

_INTEGER_CATEGORIES = 50  # distinct whole numbers up to which codes are categories by their number
_INTEGER_CATEGORY_LIMIT = 1000  # such categories are below it
_DIGITS = 2.0**53  # whole numbers up to which float64 has all
_LONGEST_LIST = 64  # values of a row that are kept, unless the user raises it
_MOSTLY = 0.9  # share of the items of lists that are those of a retrieval
_LISTED = 1000  # the most distinct strings of a vocabulary that the schema lists
_TEXT_WORDS = 3.0  # strings with so many words on average, or more, are text
_LEAST_LENGTH, _MOST_LENGTH = 32, 512  # words of a text that a model gets
_BUCKETS = 1 << 16  # buckets for its words and pairs: 10,000 short texts have some 20,000 and 100,000
# Where a dataset has nothing but texts: runs of so many characters, words between those of a pair, and
# buckets for all of these: 10,000 short texts have some 400,000, and in fewer buckets they learned less.
# So each row gets 128 buckets, within these bounds.
_RUNS, _GAP, _MANY_BUCKETS, _BUCKETS_A_ROW = (3, 6), 2, 1 << 21, 128
# `id`, `user_id`, `userId`, `ZIPCode` and `userid`; not `paid`.
_OWNERS = "user|customer|client|account|order|item|product|store|session|device|member|patient|passenger"
_ID_NAME = re.compile(
    rf"(?:^|[^A-Za-z]|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])|(?i:{_OWNERS}))(?i:id|uuid|guid|key|index|code|zip|postcode)$"
)
# The name of a column of codes, whose numbers have no order: `shop_type`, `regionCode`.
_CODES = "class|type|kind|category|group|zone|region|district|cluster|segment|status|branch|store|shop"
_CODE_NAME = re.compile(rf"(?:^|[^A-Za-z]|[a-z](?=[A-Z]))(?i:{_CODES})$")
_LARGEST_INT64 = float(1 << 63)


def propose_feature(profile: ColumnProfile) -> Feature:
    """The feature of the first kind that recognises the column; otherwise its strings are categories."""
    proposed = (propose(profile) for propose in _BY_TYPE.entries.values())
    return next((feature for feature in proposed if feature), None) or _strings(profile)


def propose_number(profile: ColumnProfile) -> Numeric:
    """The feature of a column that the user calls numbers; raises InputError where it has none."""
    if feature := _numeric(profile):
        return feature
    seen = ", ".join(repr(excerpt(value)) for value in [*profile.counts][:3]) or "no number"
    raise InputError(
        flag_of("numeric", profile.name),
        received=seen,
        expected="numbers that are written alike",
        action="Leave the flag out, or write the column's numbers alike.",
    )


def looks_like_text(profile: ColumnProfile) -> bool:
    """Returns whether values are several words long."""
    return profile.words >= _TEXT_WORDS


def looks_like_id(profile: ColumnProfile) -> bool:
    """Returns whether the column's name says that it identifies something."""
    return bool(_ID_NAME.search(profile.name))


def common_fields(profile: ColumnProfile) -> dict:
    """Fields of any feature that is read from text or numbers."""
    return {
        "name": profile.name,
        "clean": Clean(null_markers=("", *filter(None, profile.markers))),
        "missing": "mark" if profile.missing else "reject",
        "evidence": profile.evidence(),
    }


def _whole_numbers(profile: ColumnProfile) -> Categorical | None:
    """Proposes categories for the ids of something, for codes by their name, and for two values.

    All others are numbers. A model gets them as numbers, and a number that comes often also has a bin of its
    own. So it learns what 4 cylinders are, and also that 6 are between 4 and 8: categories have no order.
    """
    if not profile.are_whole_numbers:
        return None
    if (len(profile.numbers) > _INTEGER_CATEGORIES and looks_like_id(profile)) or needs_digits(profile):
        return _hashed(profile)
    low, high = profile.numbers[0], profile.numbers[-1]
    if len(profile.numbers) > _INTEGER_CATEGORIES or low < 0 or high >= _INTEGER_CATEGORY_LIMIT:
        return None
    if len(profile.numbers) > 2 and not (looks_like_id(profile) or _CODE_NAME.search(profile.name)):
        return None
    common, size = common_fields(profile), int(high) + 1
    if not profile.missing:
        return Categorical(**common, encoding="integer", size=size)
    # An integer has no mark for "missing": it gets a number of its own, the next one.
    common |= {"missing": "default", "default": size}
    return Categorical(**common, encoding="integer", size=size + 1)


def needs_digits(profile: ColumnProfile) -> bool:
    """Returns whether numbers differ only after the 16 digits that float64 keeps, like neighbouring ids."""
    if not profile.numbers or max(map(abs, profile.numbers)) < _DIGITS or len(profile.values) == 1:
        return False
    numbers = np.array([*map(float, profile.values)])
    return float64_loses(numbers, np.array([*profile.values.values()]))


def _numeric(profile: ColumnProfile) -> Numeric | None:
    if not profile.numbers:
        return propose_written(profile)
    low, high = profile.numbers[0], profile.numbers[-1]
    fits = low >= -_LARGEST_INT64 and high < _LARGEST_INT64
    is_int64 = profile.are_whole_numbers and not profile.missing and fits
    if is_int64:
        return Numeric(**common_fields(profile), number="int64")
    counts = profile.values.values()
    offset = offset_for(np.array([*map(float, profile.values)]), np.array([*counts]))
    return Numeric(**common_fields(profile), offset=offset)


def _image(profile: ColumnProfile) -> Image | None:
    return Image(name=profile.name, evidence=profile.evidence()) if profile.are_images else None


def _tensor(profile: ColumnProfile) -> Tensor | None:
    if not profile.holds_lists:
        return None
    [size] = profile.lengths.keys() - {0}
    number = "int64" if profile.items == "whole" else "float32"
    return Tensor(name=profile.name, dimensions=(size,), number=number, evidence=profile.evidence())


def _lists(profile: ColumnProfile) -> Categories | None:
    """Proposes categories for lists of words, and for lists of whole numbers whose sizes differ."""
    if not profile.holds_lists or (profile.items != "text" and len(profile.lengths.keys() - {0}) < 2):
        return None
    if profile.items == "numbers":
        return None
    common, words = _list_fields(profile), profile.item_counts
    if len(words) > _LISTED or profile.item_others or not words:
        distinct = max(2, len(words)) * (1 + profile.item_others // max(1, sum(words.values())))
        return Categories(**common, encoding="hashed", buckets=1 << (distinct - 1).bit_length())
    words = {word: n for word, n in words.items() if word}
    aliases = spelling_aliases(words)
    common["clean"] = dataclasses.replace(common["clean"], aliases=aliases)
    return Categories(**common, vocabulary=tuple(sorted(words.keys() - aliases.keys())))


def propose_history(profile: ColumnProfile, items: Sequence[str]) -> Categories | None:
    """Proposes categories whose vocabulary is `items` for lists of these; None for other columns."""
    counts, known = profile.item_counts, {*items}
    total = sum(counts.values()) + profile.item_others
    if not profile.holds_lists or sum(counts[item] for item in counts.keys() & known) < _MOSTLY * max(
        1, total
    ):
        return None
    return Categories(**_list_fields(profile), vocabulary=tuple(items))


def _list_fields(profile: ColumnProfile) -> dict:
    return common_fields(profile) | {
        "missing": "mark" if profile.without_list else "reject",
        "length": max(1, min(max(profile.lengths), _LONGEST_LIST)),
        "delimiter": profile.delimiter,
    }


def _text(profile: ColumnProfile) -> Text | None:
    distinct = len(profile.values)
    hardly_repeats = distinct > _LISTED or profile.others or distinct == sum(profile.values.values())
    if not (looks_like_text(profile) and hardly_repeats):
        return None
    longest = 1 << math.ceil(math.log2(2 * profile.words))  # most texts are shorter than twice the mean
    length = min(max(longest, _LEAST_LENGTH), _MOST_LENGTH)
    return Text(**common_fields(profile), length=length, buckets=_BUCKETS, words="lower_case", pairs=True)


def with_runs(features: Sequence[Feature], *, rows: int) -> list[Feature]:
    """Returns the features, with runs of characters and distant pairs where all inputs are texts.

    There is nothing else to learn from, and pipeline/configs/text.py learns from them.

    Args:
      rows: rows of the table, as far as it was read.
    """
    inputs = [each for each in features if not isinstance(each, Label)]
    if not all(isinstance(each, Text) for each in inputs):
        return list(features)
    wanted = 1 << (max(1, _BUCKETS_A_ROW * rows) - 1).bit_length()
    buckets = min(max(wanted, _BUCKETS), _MANY_BUCKETS)
    return [
        dataclasses.replace(each, gap=_GAP, characters=_RUNS, buckets=buckets)
        if isinstance(each, Text)
        else each
        for each in features
    ]


def _strings(profile: ColumnProfile) -> Categorical:
    if len(profile.values) > _LISTED or profile.others:
        return _hashed(profile)
    common, aliases = common_fields(profile), spelling_aliases(profile.values)
    common["clean"] = dataclasses.replace(common["clean"], aliases=aliases)
    return Categorical(**common, vocabulary=tuple(sorted(profile.values.keys() - aliases.keys())))


def _hashed(profile: ColumnProfile) -> Categorical:
    buckets = 1 << (profile.distinct - 1).bit_length()
    return Categorical(**common_fields(profile), encoding="hashed", buckets=buckets)


def _never(profile: ColumnProfile) -> None:
    """Proposes nothing: for the label, which the user names, and for tokens, which the source names."""


# The order in which they are tried.
_BY_TYPE: FeatureTypeTable[Callable[[ColumnProfile], Feature | None]] = FeatureTypeTable(
    where=__name__,
    question="how a kind is recognised in raw data",
    entry="a function of ColumnProfile to the feature, or to None if the column is of another kind",
    entries={
        Datetime: propose_datetime,
        Categorical: _whole_numbers,
        Numeric: _numeric,
        Image: _image,
        Categories: _lists,
        Tensor: _tensor,
        Text: _text,
        Tokens: _never,
        Label: _never,
    },
)


# --- Columns that say nothing about a label: empty ones, constants, ids.


_COUNTED = 20  # from this many rows on, consecutive numbers are no chance
_EMPTY = 0.999  # from this missing fraction on, a column says nothing


def why_useless(profile: ColumnProfile) -> str:
    """Returns why a column says nothing about a label; empty if it may."""
    if profile.holds_lists and len(profile.lengths.keys() - {0}) > 1 and profile.items == "numbers":
        sizes = sorted(profile.lengths.keys() - {0})
        return f"lists of {sizes[0]} to {sizes[-1]} values, where a tensor is numbers of one size"
    if profile.are_images or profile.holds_lists:
        return ""
    # A text file has such cells, and `convert` would refuse it.
    if profile.undecodable > MOST_WRONG * profile.rows:
        return f"bytes that are no text in {profile.undecodable:,} of {profile.rows:,} rows"
    present = sum(profile.values.values())
    if profile.missing_fraction >= _EMPTY:
        return f"empty in {profile.missing:,} of {profile.rows:,} rows"
    if len(profile.values) == 1 and not profile.missing:
        return f"always '{excerpt(next(iter(profile.values)))}'"
    dates = unread_dates(profile)
    if dates:
        spelled = ", ".join(map(repr, dates))
        return f"dates that no one format reads ({spelled}), which have to be written alike, as 2024-12-31"
    differs = len(profile.values) == present > 1
    if differs and present >= _COUNTED and _follow_one_another(profile):
        first, last = profile.numbers[0], profile.numbers[-1]
        return f"each whole number from {first:.0f} to {last:.0f} once, as in row numbers"
    if needs_digits(profile) and not profile.are_whole_numbers:
        return "numbers that differ only behind the 16 digits that float64 keeps"
    is_id = profile.are_whole_numbers and (looks_like_id(profile) or needs_digits(profile))
    if differs and (
        is_id
        or (
            profile.numbers is None
            and not looks_like_text(profile)
            and not _needs_reading(profile)
            and not _are_mostly_numbers(profile)
        )
    ):
        return _what_differs(profile)
    rows, is_exact = present + profile.others, profile.are_whole_numbers or profile.numbers is None
    if looks_like_id(profile) and is_exact and rows >= _COUNTED and profile.distinct >= TELLS_APART * rows:
        return f"{profile.distinct:,} different values in {rows:,} rows, as in an id where some rows repeat"
    return ""


def _what_differs(profile: ColumnProfile) -> str:
    """Says what the values of a column are that all differ, and what to do where they are no ids."""
    first = excerpt(next(iter(profile.values)))
    if are_times_of_day(profile):
        return f"times of day or durations ('{first}') all differ: write them as numbers, such as minutes"
    if are_bracketed(profile):
        return f"lists that are written as text ({first!r}): JSON Lines would have them as lists"
    if found := mostly_dates(profile):
        form, wrong = found
        odd = ", ".join(repr(excerpt(value)) for value in wrong[:3])
        return f"mostly dates as {form}, but not {odd}: correct these, or name them by --missing"
    if are_months(profile):
        return f"months or quarters ('{first}') all differ: write them as dates, such as 2024-12-01"
    return "every value differs, as in an id"


def leaving_out(column: str) -> str:
    """Returns the flag that leaves out a column, for the shell."""
    return flag_of("ignore", column)


def flag_of(flag: str, column: str) -> str:
    """Returns a flag that takes a list, with one column; commas and quotes in its name are quoted."""
    escaped = column.replace('"', '""')
    return shlex.quote(f'--{flag}="{escaped}"' if set(column) & set(',"') else f"--{flag}={column}")


def _follow_one_another(profile: ColumnProfile) -> bool:
    numbers = profile.numbers
    return profile.are_whole_numbers and numbers[-1] - numbers[0] == len(numbers) - 1


def are_bracketed(profile: ColumnProfile) -> bool:
    """Returns whether the values are lists or objects in text, as Python and JSON write them."""
    return bool(profile.values) and all(value[:1] + value[-1:] in ("[]", "{}") for value in profile.values)


def _are_mostly_numbers(profile: ColumnProfile) -> bool:
    """Returns whether most values are numbers with decimals: a few words among them make no id."""
    return 2 * len(decimals_of(profile)) > len(profile.values)


def decimals_of(profile: ColumnProfile) -> list[str]:
    """The values that are numbers with decimals."""
    return [value for value in profile.values if is_number(value) and not is_whole_number(value)]


def _needs_reading(profile: ColumnProfile) -> bool:
    """Returns whether the text is a date, or a number written for people."""
    return bool(propose_datetime(profile) or propose_written(profile))

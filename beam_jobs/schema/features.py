"""Proposes a feature for one column: what a careful person would declare at first sight of its profile."""

import dataclasses
import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from beam_jobs.schema.datetimes import (
    are_times_of_day,
    datetime_remarks,
    moments_of,
    mostly_dates,
    propose_datetime,
    unread_dates,
)
from beam_jobs.schema.numbers import point_remarks, propose_written, written_numbers, written_remarks
from beam_jobs.schema.profiles import (
    ColumnProfile,
    excerpt,
    far_values,
    is_number,
    same_values,
    spelling_aliases,
)
from beam_jobs.sources.source import MOST_WRONG
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
_LISTED = 1000  # distinct strings up to which the vocabulary is listed
_TEXT_WORDS = 3.0  # words a value, on average, from which strings are text
_LEAST_LENGTH, _MOST_LENGTH = 32, 512  # of the words of a text that a model gets
_BUCKETS = 1 << 16  # of its words and pairs: 10,000 short texts have some 20,000 and 100,000
# Where a dataset has nothing but texts: runs of so many characters, words between those of a pair, and
# buckets for all of these: 10,000 short texts have some 400,000, and in fewer buckets they learned less.
# So each row gets 128 buckets, within these bounds.
_RUNS, _GAP, _MANY_BUCKETS, _BUCKETS_A_ROW = (3, 6), 2, 1 << 21, 128
# `id`, `user_id`, `userId`, `ZIPCode` and `userid`; not `paid`.
_OWNERS = "user|customer|client|account|order|item|product|store|session|device|member|patient|passenger"
_ID_NAME = re.compile(
    rf"(?:^|[^A-Za-z]|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])|(?i:{_OWNERS}))(?i:id|uuid|guid|key|index|code|zip|postcode)$"
)
# The name of a column of codes, among which none is more than another: `shop_type`, `regionCode`.
_CODES = "class|type|kind|category|group|zone|region|district|cluster|segment|status|branch|store|shop"
_CODE_NAME = re.compile(rf"(?:^|[^A-Za-z]|[a-z](?=[A-Z]))(?i:{_CODES})$")
_LARGEST_INT64 = float(1 << 63)


def propose_feature(profile: ColumnProfile) -> Feature:
    """The feature of the first kind that recognises the column; otherwise its strings are categories."""
    proposed = (propose(profile) for propose in _BY_TYPE.entries.values())
    return next((feature for feature in proposed if feature), None) or _strings(profile)


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

    All others are numbers. A model gets those as such, and each that comes often also as a bin of its own: so
    it learns what 4 cylinders are, and that 6 are between 4 and 8, which a category would not say.
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
    aliases = spelling_aliases(words)
    common["clean"] = dataclasses.replace(common["clean"], aliases=aliases)
    return Categories(**common, vocabulary=tuple(sorted(words.keys() - aliases.keys() - {""})))


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
      rows: of the table, as far as it was read.
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


# --- Remarks on a proposed feature, for the user to check.


_SHOWN = 3
_MANY = 20  # from this many rows on, a remark says that all values differ
_RARE = 5  # with fewer rows for each category, on average, a model learns little about it
_MANY_CATEGORIES = 100
_MOSTLY = 0.9  # share of the rows with a value
_HALF = 0.5  # the same, where at least _MANY of the different values are numbers
_OFTEN = 0.2  # share of the rows; a word that means "missing" is mostly rarer
_NEGATIVE = re.compile(r"\([0-9][0-9.,]*\)|[0-9][0-9.,]*-|[\u2212\u2013\u2012\ufe63\uff0d][0-9][0-9.,]*")
_DELIMITERS = ("|", ";", ",")
_SECONDS = (100_000_000, 10_000_000_000)  # since 1970: from 1973 to 2286
_WORDS_FOR_LISTS = 4  # times as many lists as words are in them


def missing_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Yields remarks on values that count as missing, or may mean it, with the flags that change that."""
    named = f"'{profile.name}'"
    odd = [marker for marker in feature.clean.null_markers if marker and marker in profile.counts]
    words = [marker for marker in odd if marker not in {*profile.sentinels, *profile.declared_values}]
    if words:
        rows = sum(profile.counts[word] for word in words)
        is_often = rows > _OFTEN * profile.rows or isinstance(feature, Label)
        listed = ", ".join(repr(excerpt(word)) for word in words)
        advice = f" If it is a value of its own: {_flags('not_missing', profile, words)}." if is_often else ""
        yield f"{named}: {listed} ({rows:,} of {profile.rows:,} rows) is taken as missing.{advice}"
    if profile.sentinels and profile.numbers:
        rows = sum(profile.counts[sentinel] for sentinel in profile.sentinels)
        yield (
            f"{named}: {', '.join(profile.sentinels)} ({rows:,} rows) is far from all other numbers "
            f"({profile.numbers[0]:g} … {profile.numbers[-1]:g}) and taken as missing. If it is one of them: "
            f"{_flags('not_missing', profile, profile.sentinels)}."
        )
    if far := far_in(profile, feature):
        rows = sum(profile.counts[value] for value in far)
        yield (
            f"{named}: {', '.join(far)} ({rows:,} of {profile.rows:,} rows) stands apart from all "
            f"other values, and repeats. If it means that there is none: {_flags('missing', profile, far)}."
        )
    elif suspects := _words_for_none(profile, feature):
        rows = sum(profile.counts[word] for word in suspects)
        yield (
            f"{named}: {', '.join(map(repr, suspects))} ({rows:,} of {profile.rows:,} rows) is taken as a "
            f"value. If it means that there is none: {_flags('missing', profile, suspects)}."
        )
    if unseen := [value for value in profile.declared if not same_values(profile.counts, [value])]:
        yield f"{named}: {', '.join(map(repr, unseen))} of --missing is in none of the rows."


def far_in(profile: ColumnProfile, feature: Feature) -> tuple[str, ...]:
    """Returns the values of a number or date, in any spelling, that occur several times and lie far from all
    others.
    """
    if isinstance(feature, Datetime):
        numbers = moments_of(profile, feature)
    elif profile.numbers is None:
        numbers = written_numbers(profile)
    else:
        return profile.far_values
    kept = same_values(profile.counts, profile.kept)
    return tuple(value for value in far_values(numbers, profile.counts) if value not in kept)


# Words for "no value", in lower case. They stay categories unless the user says otherwise.
_FOR_NONE = frozenset(
    {
        *(
            "unknown",
            "unk",
            "none",
            "nil",
            "null",
            "(null)",
            "<null>",
            "n/a",
            "n.a.",
            "n.a",
            "na",
            "<na>",
            "nan",
        ),
        *("nat", "nd", "n.d.", "missing", "(missing)", "undefined", "unspecified", "tbd", "tba", "no answer"),
        *("not available", "not applicable", "not specified", "not known", "not reported", "not stated"),
        *("not given", "no data", "nodata", "no value", "blank", "(blank)", "empty", "(empty)"),
        *(
            "-",
            "--",
            "---",
            ".",
            "..",
            "...",
            "?",
            "??",
            "*",
            "#n/a",
            "#null!",
            "#value!",
            "#ref!",
            "#div/0!",
        ),
        *(
            "#name?",
            "#num!",
            "k.a.",
            "k. a.",
            "keine angabe",
            "unbekannt",
            "inconnu",
            "desconocido",
            "sconosciuto",
        ),
    }
)


def _words_for_none(profile: ColumnProfile, feature: Feature) -> list[str]:
    """Returns the categories or classes that may mean "no value"."""
    is_words = isinstance(feature, Label | Categorical) and profile.numbers is None
    suspects = {value for value in profile.values if value.casefold() in _FOR_NONE} if is_words else set()
    return sorted(suspects - same_values(profile.counts, profile.kept))


def _flags(flag: str, profile: ColumnProfile, values: Iterable[str]) -> str:
    """Returns the flags of `infer_schema` that say what each value is, quoted for the shell."""
    texts = [f"--{flag}={profile.name}={value}" for value in values]
    # A sentence may end after it, so a value with a point of its own is quoted.
    return " ".join(
        f"'{text}'" if text.endswith(".") and "'" not in text else shlex.quote(text) for text in texts
    )


def feature_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Yields remarks on any feature, each with its counts; `missing_remarks` has those on missing values."""
    if profile.undecodable:
        yield (
            f"'{profile.name}': {profile.undecodable:,} values are not UTF-8 and will be rejected. "
            "Convert the file to UTF-8."
        )
    yield from _alias_remarks(profile, feature)
    yield from written_remarks(profile, feature.clean)
    if feature.dtype == "float32":
        yield from point_remarks(profile)
    if needs_digits(profile) and isinstance(feature, Categorical):
        yield (
            f"'{profile.name}': {len(profile.values):,} numbers differ only behind the 16 digits that "
            "float64 keeps, so they are hashed as ids, of which all digits count. If they are amounts, "
            "subtract a constant from the column."
        )
    elif isinstance(feature, Categorical) and feature.encoding == "hashed" and profile.are_whole_numbers:
        yield (
            f"'{profile.name}': {len(profile.values):,} different whole numbers are hashed as ids, by "
            "the name. If they are amounts, make it numeric."
        )
    yield from _mixed_unit_remarks(profile)
    if isinstance(feature, Numeric) and profile.with_e:
        value, more = profile.with_e[0], len(profile.with_e) - 1
        yield (
            f"'{profile.name}': '{value}'{f' (and {more:,} more like it)' if more else ''} is read as "
            f"{float(value):g}. If these are codes, set 'kind' to 'categorical' in the schema."
        )
    if isinstance(feature, Numeric) and profile.are_whole_numbers and _all_differ(profile):
        out = leaving_out(profile.name)
        yield f"'{profile.name}': all values differ. If it is an id, leave it out: {out}."
    if isinstance(feature, Numeric) and feature.offset:
        yield (
            f"'{profile.name}': records hold the numbers less {feature.offset:.9g} ('offset'): float32 keeps "
            "7 digits, and the first of these say nothing."
        )
    if isinstance(feature, Tensor) and profile.missing:
        yield (
            f"'{profile.name}': {profile.missing:,} rows have no list and will be rejected. To keep them, "
            f"leave the column out: {leaving_out(profile.name)}."
        )
    if isinstance(feature, Datetime):
        yield from datetime_remarks(profile, feature)
    if isinstance(feature, Categories):
        yield from _list_remarks(profile, feature)
    elif isinstance(feature, Categorical) and profile.numbers is None:
        yield from _word_remarks(profile)


def _list_remarks(profile: ColumnProfile, feature: Categories) -> Iterator[str]:
    longer = sum(rows for length, rows in profile.lengths.items() if length > feature.length)
    if longer:
        yield (
            f"'{profile.name}': {longer:,} of {profile.rows:,} rows have lists of more than {feature.length} "
            f"values, up to {max(profile.lengths)}: the first {feature.length} are kept ('length')."
        )


def _mixed_unit_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Yields where whole numbers are seconds since 1970 in some rows, and milliseconds in others."""
    numbers = profile.numbers if profile.are_whole_numbers else None
    seconds = [number for number in numbers or () if _SECONDS[0] <= number < _SECONDS[1]]
    others = [number for number in numbers or () if number >= _SECONDS[1]]
    if not seconds or not others or len(seconds) + len(others) < len(numbers):
        return
    inside = [number for number in others if seconds[0] / 2 <= number / 1000 <= 2 * seconds[-1]]
    if len(inside) == len(others):
        yield (
            f"'{profile.name}': some values look like seconds since 1970 ({seconds[0]:.0f}), others like "
            f"milliseconds ({others[0]:.0f}). Write all in one unit."
        )


def _word_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Yields the first remark that applies, if words are odd as categories."""
    words, rows = profile.distinct, sum(profile.values.values()) + profile.others
    named, delimiter = f"'{profile.name}'", delimiter_of(profile)
    if all(map(str.isdecimal, profile.values)) and not all(map(str.isascii, profile.values)):
        yield f"{named}: numbers in other digits than 0 to 9 are taken as words. Write them with 0 to 9."
    elif delimiter:
        flag = shlex.quote(f"--list_delimiter={profile.name}={delimiter}")
        yield (
            f"{named}: the cells are lists between {delimiter!r}, and each different list is a category. "
            f"To read them as lists: {flag}."
        )
    elif remark := _mostly(profile):
        yield remark
    elif words >= _MANY_CATEGORIES and rows < _RARE * words:
        sentences = sum(" " in word.strip() for word in profile.values)
        text = " If it is sentences, make it 'text'." if sentences > _HALF * len(profile.values) else ""
        yield (
            f"{named}: {words:,} different words in {rows:,} rows are categories too rare to learn much "
            f"from.{text} To leave it out: {leaving_out(profile.name)}."
        )


def _mostly(profile: ColumnProfile) -> str:
    """Returns what keeps a column from being numbers or dates; empty if it is mostly something else."""
    named, rows = f"'{profile.name}'", sum(profile.values.values())
    odd = [value for value in profile.values if not is_number(value)]
    numbers = rows - sum(profile.values[value] for value in odd)
    least = _HALF if len(profile.values) - len(odd) >= _MANY else _MOSTLY
    least = 0 if set(odd) == set(_negatives(profile)) else least
    if numbers and numbers >= least * rows and not any(map(str.isdecimal, odd)):  # like the postcode 01067
        return (
            f"{named}: {numbers:,} of {rows:,} values are numbers, but not {_most(profile, odd)}; so all "
            """are categories. Write them as numbers (-61 for "(61)"); where they mean that there is none: """
            f"{_flags('missing', profile, odd[:_SHOWN])}."
        )
    if found := mostly_dates(profile):
        form, wrong = found
        dates = rows - sum(profile.values[value] for value in wrong)
        return (
            f"{named}: {dates:,} of {rows:,} values are dates as {form}, but not {_most(profile, wrong)}; "
            "so all are categories. Correct them; where they mean that there is none: "
            f"{_flags('missing', profile, wrong[:_SHOWN])}."
        )
    return ""


def _negatives(profile: ColumnProfile) -> list[str]:
    """Returns the values that only people read as negative numbers: `(5)`, `5-`, other signs than `-`."""
    return [value for value in profile.values if _NEGATIVE.fullmatch(value)]


def _most(profile: ColumnProfile, odd: Collection[str]) -> str:
    """Formats the most frequent of these values, with their counts."""
    most = sorted(odd, key=lambda value: (-profile.values[value], value))[:_SHOWN]
    listed = ", ".join(f"{excerpt(value)!r} ({profile.values[value]:,})" for value in most)
    return f"{listed} and {len(odd) - _SHOWN:,} more" if len(odd) > _SHOWN else listed


def delimiter_of(profile: ColumnProfile, *, lists: float = _WORDS_FOR_LISTS) -> str:
    """Returns what stands between the words of a column of lists; empty if it is none.

    `lists`: different lists for each word in them, at least.
    """
    for delimiter in _DELIMITERS:
        words = {word.strip() for value in profile.values for word in value.split(delimiter)} - {""}
        if words and lists * len(words) <= len(profile.values):
            return delimiter
    return ""


def _alias_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    aliases = [(rare, usual) for rare, usual in feature.clean.aliases.items() if rare in profile.counts]
    if not aliases:
        return
    counts = profile.counts
    first = ", ".join(
        f"{_visible(rare)} ({counts[rare]:,}) as {_visible(usual)} ({counts[usual]:,})"
        for rare, usual in aliases[:_SHOWN]
    )
    more = f" and {len(aliases) - _SHOWN} more" if len(aliases) > _SHOWN else ""
    yield (
        f"'{profile.name}': spellings that differ in case or blanks are one: {first}{more}. If not, remove "
        "'aliases'."
    )


def _visible(value: str) -> str:
    """Quotes a value; accents that are separate marks are escaped."""
    combined = unicodedata.normalize("NFC", value) != value
    return ascii(excerpt(value)) if combined else repr(excerpt(value))


def _all_differ(profile: ColumnProfile) -> bool:
    return len(profile.values) == sum(profile.values.values()) >= _MANY


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
        is_id or (profile.numbers is None and not looks_like_text(profile) and not _needs_reading(profile))
    ):
        if are_times_of_day(profile):
            first = next(iter(profile.values))
            return f"times of day or durations ('{first}') all differ: write them as numbers, such as minutes"
        return "every value differs, as in an id"
    return ""


def leaving_out(column: str) -> str:
    """Returns the flag that leaves out a column, for the shell; commas and quotes in its name are quoted."""
    escaped = column.replace('"', '""')
    return shlex.quote(f'--ignore="{escaped}"' if set(column) & set(',"') else f"--ignore={column}")


def _follow_one_another(profile: ColumnProfile) -> bool:
    numbers = profile.numbers
    return profile.are_whole_numbers and numbers[-1] - numbers[0] == len(numbers) - 1


def _needs_reading(profile: ColumnProfile) -> bool:
    """Returns whether the text is a date, or a number written for people."""
    return bool(propose_datetime(profile) or propose_written(profile))

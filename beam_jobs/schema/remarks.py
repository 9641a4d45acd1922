"""Says what a person should check of a proposed feature: values, missing ones, spellings, dates and lists."""

import collections
import itertools
import json
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from beam_jobs.schema.datetimes import (
    are_months,
    are_times_of_day,
    datetime_remarks,
    moments_of,
    mostly_dates,
)
from beam_jobs.schema.features import are_bracketed, flag_of, leaving_out, looks_like_id, needs_digits
from beam_jobs.schema.numbers import point_remarks, written_numbers, written_remarks
from beam_jobs.schema.profiles import (
    ColumnProfile,
    excerpt,
    far_values,
    flags_of_values,
    is_number,
    same_values,
    spelling_aliases,
)
from beam_jobs.sources.source import share_needed
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Categories, Datetime, Label, Numeric, Tensor

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
_UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
# Amounts that nothing here reads: 1,12,345 and (1,234.5), 1.5K, 2.4 kg, 7.38±0.1, 9/5, 1.5D+03, ="005"
_AMOUNT = re.compile(
    r"""[=<>~≤≥≈]?["'(+\u2212-]?(?:[0-9]{1,3}(?:[,_'][0-9]{2,3})+|[0-9]+)(?:[.,][0-9]+)?"""
    r"""(?:[)"*%-]|[kKMB]| [^\W\d_]{1,4}|[±/][0-9.]+|[Dd][+-]?[0-9]+)?"""
)
_ROUNDED = re.compile(r"[0-9](?:\.[0-9]{1,5})?[eE]\+[0-9]{2}")  # an id that a spreadsheet has shortened
TRUTHS = ({"0", "no", "n", "false", "f"}, {"1", "yes", "y", "true", "t"})
_TOTALS = {
    *("total", "totals", "grand total", "subtotal", "sum", "average", "mean"),
    *("summe", "gesamt", "insgesamt", "somme", "totale", "suma"),
}
_OF_SUMS = 0.05  # share of the rows, at most, that are sums of others
# A value is told as a misspelt one where the right one has so many times as many rows, a word of so many
# letters is wrong, and there are no more values than this: names of people are often one letter apart.
_TIMES_MORE, _LETTERS, _MOST_VALUES = 50, 5, 300
_WORDS_FOR_LISTS = 4  # times as many different lists as words in them


def missing_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Yields remarks on values that count as missing, or may mean it, with the flags that change that."""
    named = f"'{profile.name}'"
    odd = [marker for marker in feature.clean.null_markers if marker and marker in profile.counts]
    words = [marker for marker in odd if marker not in {*profile.sentinels, *profile.declared_values}]
    if words:
        rows = sum(profile.counts[word] for word in words)
        is_often = rows > _OFTEN * profile.rows or isinstance(feature, Label) or _are_codes(profile, words)
        listed = ", ".join(repr(excerpt(word)) for word in words)
        advice = (
            f" If it is a value of its own: {flags_of_values('not_missing', profile, words)}."
            if is_often
            else ""
        )
        yield f"{named}: {listed} ({rows:,} of {profile.rows:,} rows) is taken as missing.{advice}"
    if profile.sentinels and profile.numbers:
        rows = sum(profile.counts[sentinel] for sentinel in profile.sentinels)
        yield (
            f"{named}: {', '.join(profile.sentinels)} ({rows:,} rows) is far from all other numbers "
            f"({profile.numbers[0]:g} … {profile.numbers[-1]:g}) and taken as missing. If it is one of them: "
            f"{flags_of_values('not_missing', profile, profile.sentinels)}."
        )
    if far := far_in(profile, feature):
        rows = sum(profile.counts[value] for value in far)
        yield (
            f"{named}: {', '.join(far)} ({rows:,} of {profile.rows:,} rows) stands apart from all "
            f"other values, and repeats. {_or_cap(profile, far)}If it means that there is none: "
            f"{flags_of_values('missing', profile, far)}."
        )
    elif suspects := _words_for_none(profile, feature):
        rows = sum(profile.counts[word] for word in suspects)
        yield (
            f"{named}: {', '.join(map(repr, suspects))} ({rows:,} of {profile.rows:,} rows) is taken as a "
            f"value. If it means that there is none: {flags_of_values('missing', profile, suspects)}."
        )
    if unseen := [value for value in profile.declared if not same_values(profile.counts, [value])]:
        yield f"{named}: {', '.join(map(repr, unseen))} of --missing is in none of the rows."


def _or_cap(profile: ColumnProfile, far: Sequence[str]) -> str:
    """Says that a number above all others may be a cap; empty if none of `far` is."""
    is_above = bool(profile.numbers) and any(float(value) == profile.numbers[-1] > 0 for value in far)
    return "If it is a cap or another true value, leave it. " if is_above else ""


def _are_codes(profile: ColumnProfile, words: Collection[str]) -> bool:
    """Returns whether the words are written as all values are: NA is Namibia beside DE, FR and US."""
    lengths = {len(value) for value in (*profile.values, *words)}
    return len(lengths) == 1 and all(
        value.isalpha() and value.isupper() for value in (*profile.values, *words)
    )


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


_FEWEST_DAYS = 5
_ROWS_OF_A_DAY = 5  # on average; fewer are dates of each row's own, such as birthdays
_BEFORE_VALIDATION, _BEFORE_TEST = 0.8, 0.9  # shares of the rows, at least

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


def none_remarks(profile: ColumnProfile, keys: Mapping[str, int]) -> Iterator[str]:
    """Yields which keys of groups, with their rows, may mean that there is none."""
    kept = same_values(profile.counts, profile.kept)
    found = sorted(key for key in keys if key.casefold() in _FOR_NONE and key not in kept)
    if found:
        yield (
            f"'{profile.name}': {', '.join(map(repr, found))} ({sum(keys[key] for key in found):,} of "
            f"{profile.rows:,} rows) is a group like any other. If it means that there is none: "
            f"{flags_of_values('missing', profile, found)}."
        )


def twin_remarks(profile: ColumnProfile, names: Mapping[str, int], *, what: str) -> Iterator[str]:
    """Yields which `names`, with their rows, a person would take for one and the same."""
    twins = {**spelling_aliases(names), **_number_twins(names)}
    if twins:
        shown = ", ".join(
            f"{_visible(one)} and {_visible(other)}" for one, other in [*twins.items()][:_SHOWN]
        )
        yield (
            f"'{profile.name}': {len(twins):,} names differ from another one only in case, blanks, the "
            f"coding of accents or a '.0', such as {shown}: these are different {what}. If not, write each "
            "in one way."
        )


def _number_twins(names: Mapping[str, int]) -> dict[str, str]:
    """Maps names such as 1042.0 to 1042: pandas writes both, beside empty cells and without."""
    return {f"{name}.0": name for name in names if f"{name}.0" in names and is_number(name)}


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
    yield from _spelling_remarks(profile, feature)
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
        yield from _later_remark(profile, feature)
    if isinstance(feature, Categories):
        yield from _list_remarks(profile, feature)
    elif isinstance(feature, Categorical) and profile.numbers is None:
        yield from _word_remarks(profile)
        yield from typo_remarks(profile, feature)


def _later_remark(profile: ColumnProfile, feature: Datetime) -> Iterator[str]:
    """Yields how to test on later days, where several days have many rows each."""
    rows: collections.Counter[str] = collections.Counter()
    for text, moment in moments_of(profile, feature).items():
        rows[str(np.datetime64(int(moment), "us").astype("datetime64[D]"))] += profile.values[text]
    days, total = sorted(rows), rows.total()
    if len(days) < _FEWEST_DAYS or total < _ROWS_OF_A_DAY * len(days):
        return
    before = dict(zip(days, itertools.accumulate((rows[day] for day in days), initial=0), strict=False))
    test = next((day for day in days if before[day] >= _BEFORE_TEST * total), days[-1])
    earlier = days[1 : days.index(test)]
    if not earlier:
        return  # nearly all rows are of one day
    validation = next((day for day in earlier if before[day] >= _BEFORE_VALIDATION * total), earlier[-1])
    starts = {"validation": validation, "test": test}
    split_by = json.dumps({"column": profile.name, "first": "train", "from": starts}, ensure_ascii=False)
    yield (
        f"'{profile.name}': {total:,} rows of {len(days):,} days. Rows of one day are in train and in test, "
        "so a test says little of later days. If you predict for those, add to the schema "
        f'"split_by": {split_by}, and compare with a model that does not see the date: '
        f"{leaving_out(profile.name)}."
    )


def _list_remarks(profile: ColumnProfile, feature: Categories) -> Iterator[str]:
    longer = sum(rows for length, rows in profile.lengths.items() if length > feature.length)
    if longer:
        yield (
            f"'{profile.name}': {longer:,} of {profile.rows:,} rows have lists of more than {feature.length} "
            f"values, up to {max(profile.lengths)}: the first {feature.length} are kept ('length')."
        )


def _mixed_unit_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Yields where whole numbers are seconds since 1970 in some rows, and milliseconds or less in others."""
    found: dict[str, list[float]] = {}
    for number in profile.numbers if profile.are_whole_numbers else ():
        power = next((power for power in range(4) if _SECONDS[0] <= number / 1000**power < _SECONDS[1]), None)
        if power is None:
            return
        found.setdefault(_UNITS[power], []).append(number)
    seconds = [number / 1000 ** _UNITS.index(unit) for unit in found for number in found[unit]]
    if len(found) > 1 and max(seconds) <= 4 * min(seconds):
        listed = ", others like ".join(f"{unit} ({found[unit][0]:.0f})" for unit in _UNITS if unit in found)
        since = listed.replace(" (", " since 1970 (", 1)
        yield f"'{profile.name}': some values look like {since}. Write all in one unit."


def _spelling_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Yields remarks on values that people would read in another way than this feature does."""
    named, values = f"'{profile.name}'", profile.values
    sums = [value for value in profile.counts if value.casefold().rstrip(": ") in _TOTALS]
    rows = sum(profile.counts[value] for value in sums)
    if sums and rows <= _OF_SUMS * profile.rows:
        yield (
            f"{named}: {sums[0]!r} ({rows:,} of {profile.rows:,} rows) may be a line of sums. Remove such "
            "lines."
        )
    folded = {value.casefold() for value in values}
    if len(folded) > 2 and folded <= TRUTHS[0] | TRUTHS[1]:
        ways = " and ".join(", ".join(map(repr, sorted(folded & truth))) for truth in TRUTHS)
        yield f"{named}: {ways} look like two answers in several spellings. Write each in one."
    if are_months(profile) and isinstance(feature, Numeric | Categorical):
        yield (
            f"{named}: months or quarters ({next(iter(values))!r}) are taken as "
            f"{'numbers' if isinstance(feature, Numeric) else 'words'}. To have them as dates, write the "
            "first day of each, such as 2024-12-01."
        )
    if are_times_of_day(profile) and isinstance(feature, Categorical):
        first = next(iter(values))
        yield f"{named}: times of day or durations ({first!r}) are taken as words. As numbers, write minutes."
    if looks_like_id(profile) and profile.numbers and isinstance(feature, Numeric):
        if all(map(_ROUNDED.fullmatch, values)):
            first = next(iter(values))
            yield f"{named}: a spreadsheet has cut off digits of ids ({first}). Export them as text."
        elif not profile.are_whole_numbers and all(map(float.is_integer, profile.numbers)):
            yield (
                f"{named}: ids are taken as numbers, because some end in a fraction of zero "
                f"({next(value for value in values if '.' in value)}). Write them without it."
            )


def _word_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Yields the first remark that applies, if words are odd as categories."""
    words, rows = profile.distinct, sum(profile.values.values()) + profile.others
    named, delimiter = f"'{profile.name}'", delimiter_of(profile)
    if are_bracketed(profile):
        yield (
            f"{named}: cells such as {excerpt(next(iter(profile.values)))!r} are taken as words. If they are "
            "lists, write the rows as JSON Lines, in which lists are lists."
        )
    elif all(map(str.isdecimal, profile.values)) and not all(map(str.isascii, profile.values)):
        yield f"{named}: numbers in other digits than 0 to 9 are taken as words. Write them with 0 to 9."
    elif delimiter:
        flag = shlex.quote(f"--list_delimiter={profile.name}={delimiter}")
        yield (
            f"{named}: the cells are lists between {delimiter!r}, and each different list is a category. "
            f"To read them as lists: {flag}."
        )
    elif remark := _mostly(profile):
        yield remark
    elif _are_amounts(profile) and not are_months(profile):
        yield (
            f"{named}: values such as {next(iter(profile.values))!r} are taken as words. If they are "
            "amounts, write them with digits, a point and a minus alone, in one unit."
        )
    elif words >= _MANY_CATEGORIES and rows < _RARE * words:
        sentences = sum(" " in word.strip() for word in profile.values)
        text = " If it is sentences, make it 'text'." if sentences > _HALF * len(profile.values) else ""
        yield (
            f"{named}: {words:,} different words in {rows:,} rows are categories too rare to learn much "
            f"from.{text} To leave it out: {leaving_out(profile.name)}."
        )


def _are_amounts(profile: ColumnProfile) -> bool:
    """Returns whether many values look like amounts, and not all like codes, such as the postcode 01067."""
    is_many = len(profile.values) >= _MANY and all(map(_AMOUNT.fullmatch, profile.values))
    return is_many and not all(map(str.isdecimal, profile.values))


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
            f"{flags_of_values('missing', profile, odd[:_SHOWN])}; to have their rows rejected: "
            f"{flag_of('numeric', profile.name)}."
        )
    if found := mostly_dates(profile):
        form, wrong = found
        dates = rows - sum(profile.values[value] for value in wrong)
        return (
            f"{named}: {dates:,} of {rows:,} values are dates as {form}, but not {_most(profile, wrong)}; "
            "so all are categories. Correct them; where they mean that there is none: "
            f"{flags_of_values('missing', profile, wrong[:_SHOWN])}."
        )
    return ""


def rejected_remarks(before: ColumnProfile, profile: ColumnProfile) -> Iterator[str]:
    """Yields which values of a column `before` are no numbers, as `profile` has them alone."""
    odd = before.counts.keys() - profile.counts.keys()
    if odd:
        rows = sum(before.counts[value] for value in odd)
        share = share_needed(rows, max(1, before.rows))
        yield (
            f"'{before.name}': {_most(before, odd)} are no numbers, so {rows:,} of {before.rows:,} rows will "
            f"be rejected: convert needs --max_rejected_fraction={share:g} for them."
        )


def _negatives(profile: ColumnProfile) -> list[str]:
    """Returns the values that only people read as negative numbers: `(5)`, `5-`, other signs than `-`."""
    return [value for value in profile.values if _NEGATIVE.fullmatch(value)]


def _most(profile: ColumnProfile, odd: Collection[str]) -> str:
    """Formats the most frequent of these values, with their counts."""
    most = sorted(odd, key=lambda value: (-profile.counts[value], value))[:_SHOWN]
    listed = ", ".join(f"{excerpt(value)!r} ({profile.counts[value]:,})" for value in most)
    return f"{listed} and {len(odd) - _SHOWN:,} more" if len(odd) > _SHOWN else listed


def delimiter_of(profile: ColumnProfile, *, lists: float = _WORDS_FOR_LISTS) -> str:
    """Returns what stands between the words of a column of lists; empty if it is none.

    `lists`: a column of lists has at least this many times as many different lists as words.
    """
    for delimiter in () if are_bracketed(profile) else _DELIMITERS:
        words = {word.strip() for value in profile.values for word in value.split(delimiter)} - {""}
        if words and lists * len(words) <= len(profile.values):
            return delimiter
    return ""


def _alias_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    counted = profile.counts.keys()
    aliases = [pair for pair in feature.clean.aliases.items() if {*pair} <= counted]
    if not aliases:
        return
    what = "several spellings of a number" if profile.numbers else "spellings that differ in case or blanks"
    listed = _listed(aliases, profile.counts, "as")
    yield f"'{profile.name}': {what} are one: {listed}. If not, remove 'aliases'."


def _listed(pairs: Sequence[tuple[str, str]], counts: Mapping[str, int], word: str) -> str:
    """The first pairs, each value with its rows, and how many more there are."""
    first = ", ".join(
        f"{_visible(rare)} ({counts[rare]:,}) {word} {_visible(usual)} ({counts[usual]:,})"
        for rare, usual in pairs[:_SHOWN]
    )
    return first + (f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else "")


def typo_remarks(profile: ColumnProfile, feature: Label | Categorical) -> Iterator[str]:
    """Yields one remark on rare values that are one letter apart from a frequent one."""
    counts = profile.values
    if len(counts) > _MOST_VALUES or (feature.dtype == "string" and feature.encoding == "hashed"):
        return
    found = [
        (rare, usual)
        for rare in sorted(set(counts) - feature.clean.aliases.keys())
        for usual in counts
        if counts[usual] >= _TIMES_MORE * counts[rare] and _are_a_letter_apart(rare, usual)
    ]
    if found:
        field = "classes" if isinstance(feature, Label) else "vocabulary"
        listed = _listed(found, counts, "of")
        yield (
            f"'{profile.name}': some values may be misspellings: {listed}. Correct the cells; or take "
            f"them out of '{field}', and add them to the schema's 'aliases' of this column: "
            f"{json.dumps(dict(found[:1]), ensure_ascii=False)}."
        )


def _are_a_letter_apart(one: str, other: str) -> bool:
    """Whether one letter is wrong, left out or put in, or two neighbours are swapped, in one long word."""
    words, others = one.split(" "), other.split(" ")
    if len(words) != len(others):
        return False
    differ = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    if len(differ) != 1:
        return False
    one, other = differ[0]
    if not (one.isalpha() and other.isalpha() and min(len(one), len(other)) >= _LETTERS):
        return False
    for _ in range(2):  # leaves off what both begin with, then what both end with
        same = sum(
            1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
        )
        one, other = one[same:][::-1], other[same:][::-1]
    return max(len(one), len(other)) == 1 or (len(one) == 2 and one == other[::-1])


def _visible(value: str) -> str:
    """Quotes a value; accents that are separate marks are escaped."""
    combined = unicodedata.normalize("NFC", value) != value
    return ascii(excerpt(value)) if combined else repr(excerpt(value))


def _all_differ(profile: ColumnProfile) -> bool:
    return len(profile.values) == sum(profile.values.values()) >= _MANY

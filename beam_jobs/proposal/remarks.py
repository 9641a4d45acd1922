"""What the user should judge of a feature that is proposed."""

from collections.abc import Collection, Iterator

from beam_jobs.proposal.column_profile import ColumnProfile, is_number, shown
from beam_jobs.proposal.datetimes import datetime_remarks, mostly_dates
from beam_jobs.proposal.useless import leaving_out
from beam_jobs.proposal.written_numbers import point_remarks, written_remarks
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Categorical, Numeric, Tensor

_SHOWN = 3
_MANY = 20  # rows from which it says something that all values differ
_RARE = 5  # rows of each category, on average, below which a model learns little of it
_MANY_CATEGORIES = 100
_MOSTLY = 0.9  # of the rows with a value
_HALF = 0.5  # of them, where so many different ones are numbers
_OFTEN = 0.2  # of the rows; a word that means "missing" is rarer, mostly
_SEPARATORS = ("|", ";", ",")
_WORDS_FOR_LISTS = 4  # times as many lists as words are in them


def feature_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Remarks on any feature, each with what was counted."""
    odd = [marker for marker in feature.clean.null_markers if marker and marker in profile.counts]
    words = [marker for marker in odd if marker not in profile.sentinels]
    if words:
        rows = sum(profile.counts[word] for word in words)
        is_often = rows > _OFTEN * profile.rows
        change = "remove it from 'null_markers'"
        if not (isinstance(feature, Categorical) and feature.dtype == "string"):
            change = f"make the column categorical, by a vocabulary, and {change}"
        advice = f" If it is a value of its own, {change}." if is_often else ""
        yield (
            f"'{profile.name}': {', '.join(repr(shown(word)) for word in words)} ({rows:,} of "
            f"{profile.rows:,} rows) is taken as missing.{advice}"
        )
    if profile.sentinels and profile.numbers:
        rows = sum(profile.counts[sentinel] for sentinel in profile.sentinels)
        yield (
            f"'{profile.name}': {', '.join(profile.sentinels)} ({rows:,} rows) is far from all other numbers "
            f"({profile.numbers[0]:g} … {profile.numbers[-1]:g}) and taken as missing. If it is one of them, "
            "remove it from 'null_markers'."
        )
    if profile.undecodable:
        yield (
            f"'{profile.name}': {profile.undecodable:,} values are not UTF-8 and will be rejected. "
            "Convert the file to UTF-8."
        )
    yield from _alias_remarks(profile, feature)
    yield from written_remarks(profile, feature.clean)
    if feature.dtype == "float32":
        yield from point_remarks(profile)
    if isinstance(feature, Categorical) and feature.encoding == "hashed" and profile.are_whole_numbers:
        yield (
            f"'{profile.name}': {len(profile.values):,} different whole numbers are hashed as ids, by "
            "the name. If they are amounts, make it numeric."
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
    if isinstance(feature, Categorical) and profile.numbers is None:
        yield from _word_remarks(profile)


def _word_remarks(profile: ColumnProfile) -> Iterator[str]:
    """What is odd about words as categories: the first that applies."""
    words, rows = profile.distinct, sum(profile.values.values()) + profile.others
    named, separator = f"'{profile.name}'", _separator(profile)
    if all(map(str.isdecimal, profile.values)) and not all(map(str.isascii, profile.values)):
        yield f"{named}: numbers in other digits than 0 to 9 are taken as words. Write them with 0 to 9."
    elif separator:
        yield (
            f"{named}: the cells are lists between {separator!r}, and each different list is a category. "
            "Give each word a column of its own, or write blanks between the words and make it 'text'."
        )
    elif told := _mostly(profile):
        yield told
    elif words >= _MANY_CATEGORIES and rows < _RARE * words:
        sentences = sum(" " in word.strip() for word in profile.values)
        text = " If it is sentences, make it 'text'." if sentences > _HALF * len(profile.values) else ""
        yield (
            f"{named}: {words:,} different words in {rows:,} rows are categories too rare to learn much "
            f"from.{text} To leave it out: {leaving_out(profile.name)}."
        )


def _mostly(profile: ColumnProfile) -> str:
    """What keeps a column of numbers or dates from being one; empty if it is mostly something else."""
    named, rows = f"'{profile.name}'", sum(profile.values.values())
    odd = [value for value in profile.values if not is_number(value)]
    numbers = rows - sum(profile.values[value] for value in odd)
    least = _HALF if len(profile.values) - len(odd) >= _MANY else _MOSTLY
    if numbers >= least * rows and not any(map(str.isdecimal, odd)):  # as 01067 among postcodes
        return (
            f"{named}: {numbers:,} of {rows:,} values are numbers, but not {_first(profile, odd)}; so all "
            """are categories. Write them as numbers (-61 for "(61)"), or list those that mean that there """
            "is none under 'null_markers', and make the column numeric."
        )
    if found := mostly_dates(profile):
        form, wrong = found
        dates = rows - sum(profile.values[value] for value in wrong)
        return (
            f"{named}: {dates:,} of {rows:,} values are dates as {form}, but not {_first(profile, wrong)}; "
            "so all are categories. Correct them, or list those that mean that there is none under "
            "'null_markers', and make the column datetime."
        )
    return ""


def _first(profile: ColumnProfile, odd: Collection[str]) -> str:
    """The most frequent of these values, with their counts."""
    most = sorted(odd, key=lambda value: (-profile.values[value], value))[:_SHOWN]
    listed = ", ".join(f"{shown(value)!r} ({profile.values[value]:,})" for value in most)
    return f"{listed} and {len(odd) - _SHOWN:,} more" if len(odd) > _SHOWN else listed


def _separator(profile: ColumnProfile) -> str:
    """What stands between the words of a column of lists; empty if it is none."""
    for separator in _SEPARATORS:
        words = {word.strip() for value in profile.values for word in value.split(separator)}
        if _WORDS_FOR_LISTS * len(words) <= len(profile.values):
            return separator
    return ""


def _alias_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    aliases = [(rare, usual) for rare, usual in feature.clean.aliases.items() if rare in profile.counts]
    if not aliases:
        return
    counts = profile.counts
    first = ", ".join(
        f"{shown(rare)!r} ({counts[rare]:,}) as {shown(usual)!r} ({counts[usual]:,})"
        for rare, usual in aliases[:_SHOWN]
    )
    more = f" and {len(aliases) - _SHOWN} more" if len(aliases) > _SHOWN else ""
    yield f"'{profile.name}': spellings that differ in case are one: {first}{more}. If not, remove 'aliases'."


def _all_differ(profile: ColumnProfile) -> bool:
    return len(profile.values) == sum(profile.values.values()) >= _MANY

"""Proposes a feature for one column: what a careful person would declare at first sight of its profile."""

from collections.abc import Callable, Iterable

from beam_jobs.proposal.column_profile import ColumnProfile
from pipeline.data.errors import InputError
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens

_INTEGER_CATEGORIES = 50  # distinct whole numbers up to which they are categories
_INTEGER_CATEGORY_LIMIT = 1000  # categories are below it
_LISTED = 1000  # distinct strings up to which the vocabulary is listed
_TEXT_WORDS = 3.0  # words a value, on average, from which strings are text
_CLASSES = 1000
_LARGEST_INT64 = float(1 << 63)


def propose_feature(profile: ColumnProfile) -> Feature:
    """The feature of the first kind that recognises the column; otherwise its strings are categories."""
    proposed = (propose(profile) for propose in _OF_KIND.entries.values())
    return next((feature for feature in proposed if feature), None) or _strings(profile)


def propose_label(profile: ColumnProfile) -> Label:
    """A label of two or more classes or, of many different numbers, of a regression.

    Raises InputError if the column has too few or too many different values for classes.
    """
    strip = Clean.strip
    values = set(profile.values)
    if profile.numbers is None and len({value.rstrip(".") for value in values}) < len(values):
        # Adult's test file writes its classes with a dot at the end.
        strip += "."
        values = {value.rstrip(".") for value in values}
    common = {
        "name": profile.name,
        "clean": Clean(strip=strip, null_markers=_null_markers(profile)),
        "evidence": profile.evidence(),
    }
    many = len(values) > _INTEGER_CATEGORIES or not profile.are_whole_numbers
    if profile.numbers and many and len(values) > 2:
        return Label(**common, task="regression")
    if not 2 <= len(values) <= _CLASSES:
        raise InputError(
            f"--label={profile.name}",
            received=f"{len(values):,} different values",
            expected=f"numbers, or 2 to {_CLASSES:,} classes",
            action="Choose another label column.",
        )
    return Label(**common, task=task_of(values), classes=in_natural_order(values))


def task_of(classes: Iterable[str]) -> str:
    """The task of a label with these classes."""
    return "binary" if len(set(classes)) == 2 else "multiclass"


def in_natural_order(classes: Iterable[str]) -> tuple[str, ...]:
    """Numbers by size, words by alphabet. Of two classes the second is the positive one."""
    classes = list(classes)
    try:
        return tuple(sorted(classes, key=lambda value: (float(value), value)))
    except ValueError:
        return tuple(sorted(classes))


def looks_like_text(profile: ColumnProfile) -> bool:
    """Whether values are several words long."""
    return profile.words >= _TEXT_WORDS


def _common(profile: ColumnProfile) -> dict:
    """Fields of any feature that is read from text or numbers."""
    return {
        "name": profile.name,
        "clean": Clean(null_markers=_null_markers(profile)),
        "missing": "mark" if profile.missing else "reject",
        "evidence": profile.evidence(),
    }


def _null_markers(profile: ColumnProfile) -> tuple[str, ...]:
    return ("", *(marker for marker in profile.markers if marker))


def _few_whole_numbers(profile: ColumnProfile) -> Categorical | None:
    if not profile.are_whole_numbers:
        return None
    low, high = profile.numbers[0], profile.numbers[-1]
    if len(profile.numbers) > _INTEGER_CATEGORIES or low < 0 or high >= _INTEGER_CATEGORY_LIMIT:
        return None
    common, size = _common(profile), int(high) + 1
    if not profile.missing:
        return Categorical(**common, encoding="integer", size=size)
    # An integer has no mark for "missing": it gets a number of its own, the next one.
    common |= {"missing": "default", "default": size}
    return Categorical(**common, encoding="integer", size=size + 1)


def _numeric(profile: ColumnProfile) -> Numeric | None:
    if not profile.numbers:
        return None
    low, high = profile.numbers[0], profile.numbers[-1]
    fits = low >= -_LARGEST_INT64 and high < _LARGEST_INT64
    is_int64 = profile.are_whole_numbers and not profile.missing and fits
    return Numeric(**_common(profile), number="int64" if is_int64 else "float32")


def _image(profile: ColumnProfile) -> Image | None:
    return Image(name=profile.name, evidence=profile.evidence()) if profile.are_images else None


def _tensor(profile: ColumnProfile) -> Tensor | None:
    if not profile.holds_lists:
        return None
    [size] = profile.lengths.keys() - {0}
    number = "int64" if profile.items == "whole" else "float32"
    return Tensor(name=profile.name, dimensions=(size,), number=number, evidence=profile.evidence())


def _text(profile: ColumnProfile) -> Text | None:
    distinct = len(profile.values)
    hardly_repeats = distinct > _LISTED or distinct == sum(profile.values.values())
    return Text(**_common(profile)) if looks_like_text(profile) and hardly_repeats else None


def _strings(profile: ColumnProfile) -> Categorical:
    distinct = len(profile.values)
    if distinct <= _LISTED:
        return Categorical(**_common(profile), vocabulary=tuple(sorted(profile.values)))
    return Categorical(**_common(profile), encoding="hashed", buckets=1 << (distinct - 1).bit_length())


def _never(profile: ColumnProfile) -> None:
    """Not by the look of a column: the user names the label, and the source says that it gives tokens."""


# Asked in this order.
_OF_KIND: KindTable[Callable[[ColumnProfile], Feature | None]] = KindTable(
    where=__name__,
    tells="how a kind is recognised in raw data",
    entry="a function of ColumnProfile to the feature, or to None if the column is of another kind",
    entries={
        Categorical: _few_whole_numbers,
        Numeric: _numeric,
        Image: _image,
        Tensor: _tensor,
        Text: _text,
        Tokens: _never,
        Label: _never,
    },
)

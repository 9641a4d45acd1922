"""Proposes a feature for one column: what a careful person would declare at first sight of its profile."""

import dataclasses
import re
from collections.abc import Callable, Sequence

import numpy as np

from beam_jobs.proposal.column_profile import ColumnProfile
from beam_jobs.proposal.datetimes import propose_datetime
from beam_jobs.proposal.spellings import case_aliases
from beam_jobs.proposal.written_numbers import propose_written
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.statistics.precision import offset_for

_INTEGER_CATEGORIES = 50  # distinct whole numbers up to which they are categories
_INTEGER_CATEGORY_LIMIT = 1000  # categories are below it
_CODES = 20  # distinct whole numbers up to which they are codes, however far from 0 they begin
_LISTED = 1000  # distinct strings up to which the vocabulary is listed
_TEXT_WORDS = 3.0  # words a value, on average, from which strings are text
# `id`, `user_id`, `userId`, `ZIPCode` and `userid`; not `paid`.
_OWNERS = "user|customer|client|account|order|item|product|store|session|device|member|patient|passenger"
_ID_NAME = re.compile(
    rf"(?:^|[^A-Za-z]|[a-z](?=[A-Z])|[A-Z](?=[A-Z][a-z])|(?i:{_OWNERS}))(?i:id|uuid|guid|key|index|code|zip|postcode)$"
)
_LARGEST_INT64 = float(1 << 63)


def propose_feature(profile: ColumnProfile) -> Feature:
    """The feature of the first kind that recognises the column; otherwise its strings are categories."""
    proposed = (propose(profile) for propose in _OF_KIND.entries.values())
    return next((feature for feature in proposed if feature), None) or _strings(profile)


def looks_like_text(profile: ColumnProfile) -> bool:
    """Whether values are several words long."""
    return profile.words >= _TEXT_WORDS


def looks_like_id(profile: ColumnProfile) -> bool:
    """Whether the column's name says that it identifies something."""
    return bool(_ID_NAME.search(profile.name))


def common_fields(profile: ColumnProfile) -> dict:
    """Fields of any feature that is read from text or numbers."""
    return {
        "name": profile.name,
        "clean": Clean(null_markers=_null_markers(profile)),
        "missing": "mark" if profile.missing else "reject",
        "evidence": profile.evidence(),
    }


def _null_markers(profile: ColumnProfile) -> tuple[str, ...]:
    return ("", *(marker for marker in profile.markers if marker))


def _whole_numbers(profile: ColumnProfile) -> Categorical | None:
    """Few small numbers, or the ids of something, as categories."""
    if not profile.are_whole_numbers:
        return None
    if len(profile.numbers) > _INTEGER_CATEGORIES and looks_like_id(profile):
        return _hashed(profile)
    low, high = profile.numbers[0], profile.numbers[-1]
    if len(profile.numbers) > _INTEGER_CATEGORIES or low < 0 or high >= _INTEGER_CATEGORY_LIMIT:
        return None
    if _are_measured(profile.numbers) and not looks_like_id(profile):
        return None
    common, size = common_fields(profile), int(high) + 1
    if not profile.missing:
        return Categorical(**common, encoding="integer", size=size)
    # An integer has no mark for "missing": it gets a number of its own, the next one.
    common |= {"missing": "default", "default": size}
    return Categorical(**common, encoding="integer", size=size + 1)


def _are_measured(numbers: Sequence[float]) -> bool:
    """Whether sorted whole numbers fill a range far from 0, as heights do: most ids below it were unused."""
    distinct, low, high = len(numbers), numbers[0], numbers[-1]
    return distinct > _CODES and 2 * distinct > high - low and 2 * distinct < high


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


def _text(profile: ColumnProfile) -> Text | None:
    distinct = len(profile.values)
    hardly_repeats = distinct > _LISTED or profile.others or distinct == sum(profile.values.values())
    return Text(**common_fields(profile)) if looks_like_text(profile) and hardly_repeats else None


def _strings(profile: ColumnProfile) -> Categorical:
    if len(profile.values) > _LISTED or profile.others:
        return _hashed(profile)
    common, aliases = common_fields(profile), case_aliases(profile.values)
    common["clean"] = dataclasses.replace(common["clean"], aliases=aliases)
    return Categorical(**common, vocabulary=tuple(sorted(profile.values.keys() - aliases.keys())))


def _hashed(profile: ColumnProfile) -> Categorical:
    buckets = 1 << (profile.distinct - 1).bit_length()
    return Categorical(**common_fields(profile), encoding="hashed", buckets=buckets)


def _never(profile: ColumnProfile) -> None:
    """Not by the look of a column: the user names the label, and the source says that it gives tokens."""


# Asked in this order.
_OF_KIND: KindTable[Callable[[ColumnProfile], Feature | None]] = KindTable(
    where=__name__,
    tells="how a kind is recognised in raw data",
    entry="a function of ColumnProfile to the feature, or to None if the column is of another kind",
    entries={
        Datetime: propose_datetime,
        Categorical: _whole_numbers,
        Numeric: _numeric,
        Image: _image,
        Tensor: _tensor,
        Text: _text,
        Tokens: _never,
        Label: _never,
    },
)

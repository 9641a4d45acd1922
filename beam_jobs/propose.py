"""Proposes a feature for each column of a table: what a careful person would declare at first sight."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from beam_jobs.column_profile import ColumnProfile
from pipeline.data.errors import InputError
from pipeline.data.feature import Clean, Feature
from pipeline.data.features import Categorical, Image, Label, Numeric, Tensor, Text
from pipeline.data.schema import Schema

_EMPTY = 0.999  # missing fraction from which a column says nothing
_INTEGER_CATEGORIES = 50  # distinct whole numbers up to which they are categories
_INTEGER_CATEGORY_LIMIT = 1000
_LISTED = 1000  # distinct strings up to which the vocabulary is listed
_TEXT_WORDS = 3.0  # words a value from which strings are text
_CLASSES = 1000
_LARGEST_INT64 = float(1 << 63)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """A schema, and what the user should look at before trusting it."""

    schema: Schema
    review: tuple[str, ...]


def propose(
    profiles: Sequence[ColumnProfile], *, name: str, label: str | None, ignore: Sequence[str] = ()
) -> Proposal:
    """Raises InputError if `label` or an ignored column is not there, or `label` cannot be one."""
    _check_names(profiles, [*ignore, *([label] if label else [])])
    features: list[Feature] = []
    ignored = dict.fromkeys(ignore, "left out by --ignore")
    review: list[str] = []
    for profile in (profile for profile in profiles if profile.name not in ignored):
        reason = _useless(profile) if profile.name != label else ""
        if reason:
            ignored[profile.name] = reason
            continue
        feature = propose_label(profile) if profile.name == label else propose_feature(profile)
        features.append(feature)
        review += _remarks(profile, feature)
    _check_not_empty(features, ignored)
    review += [f"'{column}' is ignored: {reason}." for column, reason in ignored.items()]
    if label:
        review.append(
            f"Is any feature known only after '{label}' is? Move it to 'ignore': it leaks the label."
        )
    return Proposal(schema=Schema(name=name, features=tuple(features), ignore=ignored), review=tuple(review))


def propose_feature(profile: ColumnProfile) -> Feature:
    common = {
        "name": profile.name,
        "clean": Clean(null_markers=("", *(marker for marker in profile.markers if marker))),
        "missing": "mark" if profile.missing else "reject",
        "evidence": profile.evidence(),
    }
    if profile.are_whole_numbers:
        return _whole_numbers(profile, common)
    if profile.numbers:
        return Numeric(**common)
    if profile.are_images:
        return Image(name=profile.name, evidence=profile.evidence())
    if profile.holds_lists:
        [size] = profile.lengths.keys() - {0}
        number = "int64" if profile.items == "whole" else "float32"
        return Tensor(name=profile.name, dimensions=(size,), number=number, evidence=profile.evidence())
    distinct = len(profile.values)
    if profile.words >= _TEXT_WORDS and (distinct > _LISTED or distinct == sum(profile.values.values())):
        return Text(**common)
    if distinct <= _LISTED:
        return Categorical(**common, vocabulary=tuple(sorted(profile.values)))
    return Categorical(**common, encoding="hashed", buckets=1 << (distinct - 1).bit_length())


def propose_label(profile: ColumnProfile) -> Label:
    """Binary, multiclass or, of many different numbers, regression."""
    strip = Clean.strip
    values = set(profile.values)
    if profile.numbers is None and len({value.rstrip(".") for value in values}) < len(values):
        # Adult's test file writes its classes with a dot at the end.
        strip += "."
        values = {value.rstrip(".") for value in values}
    common = {
        "name": profile.name,
        "clean": Clean(strip=strip, null_markers=("", *(marker for marker in profile.markers if marker))),
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
    return "binary" if len(set(classes)) == 2 else "multiclass"


def in_natural_order(classes: Iterable[str]) -> tuple[str, ...]:
    """Numbers by size, words by alphabet; of two classes the second is the positive one."""
    classes = list(classes)
    try:
        return tuple(sorted(classes, key=lambda value: (float(value), value)))
    except ValueError:
        return tuple(sorted(classes))


def _whole_numbers(profile: ColumnProfile, common: dict) -> Feature:
    low, high = profile.numbers[0], profile.numbers[-1]
    few = len(profile.numbers) <= _INTEGER_CATEGORIES and high < _INTEGER_CATEGORY_LIMIT
    if few and low >= 0:
        size = int(high) + 1
        if not profile.missing:
            return Categorical(**common, encoding="integer", size=size)
        # An integer has no mark for "missing": it gets a number of its own, the next one.
        common |= {"missing": "default", "default": size}
        return Categorical(**common, encoding="integer", size=size + 1)
    is_int64 = not profile.missing and low >= -_LARGEST_INT64 and high < _LARGEST_INT64
    return Numeric(**common, number="int64" if is_int64 else "float32")


def _useless(profile: ColumnProfile) -> str:
    """Why a column says nothing about a label; empty if it may."""
    if profile.holds_lists and (len(profile.lengths.keys() - {0}) > 1 or profile.items == "text"):
        sizes = sorted(profile.lengths.keys() - {0})
        return f"lists of {sizes[0]} to {sizes[-1]} values, where a tensor is numbers of one size"
    if profile.are_images or profile.holds_lists:
        return ""
    present = sum(profile.values.values())
    if profile.missing_fraction >= _EMPTY:
        return f"empty in {profile.missing:,} of {profile.rows:,} rows"
    if len(profile.values) == 1 and not profile.missing:
        return f"always '{next(iter(profile.values))}'"
    differs = len(profile.values) == present > 1
    is_text = profile.words >= _TEXT_WORDS
    is_id = profile.are_whole_numbers and profile.name.lower().endswith("id")
    if differs and (is_id or (profile.numbers is None and not is_text)):
        return "every value differs, as in an id"
    return ""


def _remarks(profile: ColumnProfile, feature: Feature) -> list[str]:
    remarks = []
    odd = [marker for marker in profile.markers if marker]
    if odd:
        remarks.append(f"'{profile.name}': {', '.join(map(repr, odd))} is taken as missing.")
    if isinstance(feature, Label):
        if profile.missing:
            remarks.append(f"'{profile.name}': {profile.missing:,} rows have no label and will be rejected.")
        if "." in feature.clean.strip:
            remarks.append(f"'{profile.name}': a '.' at the end is stripped, which merges classes.")
        if feature.task == "binary":
            remarks.append(f"'{profile.name}': the positive class is {feature.classes[1]!r}.")
    if profile.undecodable:
        remarks.append(
            f"'{profile.name}': {profile.undecodable:,} values are not UTF-8 and will be rejected."
        )
    return remarks


def _check_not_empty(features: Sequence[Feature], ignored: Mapping[str, str]) -> None:
    if not features:
        reasons = "; ".join(f"'{column}': {reason}" for column, reason in ignored.items())
        raise InputError(
            "columns of the input",
            received=f"none that could be a feature ({reasons or 'no rows'})",
            expected="at least one",
            action="Check the file; or write the schema by hand.",
        )


def _check_names(profiles: Sequence[ColumnProfile], names: Sequence[str]) -> None:
    known = [profile.name for profile in profiles]
    absent = [name for name in names if name not in known]
    if absent:
        raise InputError(
            "--label or --ignore",
            received=", ".join(absent),
            expected=f"columns of the data: {', '.join(known)}",
            action="Correct the name; if the file has no header, give --column_names.",
        )

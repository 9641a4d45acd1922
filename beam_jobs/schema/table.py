"""Proposes the schema of a table from the profiles of its columns, and what to look at before trusting it."""

import dataclasses
from collections.abc import Mapping, Sequence

from beam_jobs.schema.features import feature_remarks, leaving_out, propose_feature, why_useless
from beam_jobs.schema.labels import candidates, label_remarks, propose_label
from beam_jobs.schema.profiles import ColumnProfile
from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema, identifiers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """A schema, what the user should look at before trusting it, and how much was seen."""

    schema: Schema
    review: tuple[str, ...]
    looked_at: str = ""  # how much of the data was seen


def propose(
    profiles: Sequence[ColumnProfile],
    *,
    name: str,
    label: str | None,
    task: str | None = None,
    ignore: Sequence[str] = (),
) -> Proposal:
    """A feature for each column that may say something about `label`; the others are ignored.

    Raises InputError if `label` or an ignored column is not there, or `label` does not suit the task.
    """
    _check_names(profiles, [*ignore, *([label] if label else [])])
    if label in ignore:
        raise InputError(
            f"--ignore={label}",
            received="the column of --label",
            expected="other columns: a label is what is predicted",
            action="Leave it out of one of the two.",
        )
    features: list[Feature] = []
    ignored = dict.fromkeys(ignore, "left out by --ignore")
    review: list[str] = []
    for profile in (profile for profile in profiles if profile.name not in ignored):
        reason = why_useless(profile) if profile.name != label else ""
        if reason:
            ignored[profile.name] = reason
            continue
        if profile.name == label:
            features.append(propose_label(profile, task=task))
            review += label_remarks(profile, features[-1])
        else:
            features.append(propose_feature(profile))
        review += feature_remarks(profile, features[-1])
    _check_not_empty(features, ignored)
    features = _with_names(features)
    review += [f"'{column}' is ignored: {reason}." for column, reason in ignored.items()]
    if label and len(features) == 1:
        review.append(f"No column is left that '{label}' could be predicted from: a model needs one.")
    elif label:
        review.append(
            f"Is any feature known only after '{label}' is? Move it to 'ignore': it leaks the label."
        )
    else:
        review.append(candidates(profiles))
    return Proposal(schema=Schema(name=name, features=tuple(features), ignore=ignored), review=tuple(review))


def _with_names(features: Sequence[Feature]) -> list[Feature]:
    """The features, which are called as their columns, under identifiers."""
    names = identifiers(feature.name for feature in features)
    return [
        dataclasses.replace(feature, name=names[feature.name], column=feature.name)
        if names[feature.name] != feature.name
        else feature
        for feature in features
    ]


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
        with_comma = next((name for name in known if name.startswith(f"{absent[0]},")), None)
        raise InputError(
            "--label or --ignore",
            received=", ".join(map(repr, absent)),
            expected=f"columns of the data: {', '.join(known)}",
            action=f"Quote a name that holds a comma: {leaving_out(with_comma)}."
            if with_comma
            else did_you_mean(
                absent[0],
                known,
                otherwise="Correct the name; if the file has no header, give --column_names.",
            ),
        )

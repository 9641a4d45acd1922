"""Proposes the schema of a table from the profiles of its columns, and what to look at before trusting it."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from beam_jobs.schema.features import (
    leaving_out,
    propose_feature,
    propose_history,
    propose_number,
    why_useless,
    with_runs,
)
from beam_jobs.schema.labels import candidates, label_remarks, missing_label_remarks, propose_labels
from beam_jobs.schema.numbers import with_numbers_alone
from beam_jobs.schema.profiles import ColumnProfile, as_lists, excerpt, flags_of_values, same_values
from beam_jobs.schema.remarks import (
    feature_remarks,
    missing_remarks,
    none_remarks,
    rejected_remarks,
    twin_remarks,
)
from beam_jobs.sources.source import share_needed
from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import RANKING, Categories, Label
from pipeline.data.schema.schema import Group, Schema, identifiers
from pipeline.data.schema.times import FORMATS, LAST_FIRST_YEAR


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """A schema, what the user should look at before trusting it, and how much of the data was seen."""

    schema: Schema
    review: tuple[str, ...]
    looked_at: str = ""  # how much of the data was seen
    about_label: int = 0  # number of remarks on missing labels; they come first in `review`


def propose(
    profiles: Sequence[ColumnProfile],
    *,
    name: str,
    label: str | None,
    task: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    missing: Sequence[str] = (),
    not_missing: Sequence[str] = (),
    date_format: Sequence[str] = (),
    first_year: Sequence[str] = (),
    list_delimiter: Sequence[str] = (),
    numeric: Sequence[str] = (),
) -> Proposal:
    """A feature for each column that may say something about `label`; the others are ignored.

    `label` may name several columns, with commas between them: they are predicted together. `group` names the
    column by which rows are ranked together.

    `missing` and `not_missing` name values that are missing, or are not, as `COLUMN=VALUE` or as `VALUE` in
    all columns. In the same form `date_format` and `first_year` say how dates are written (see `Datetime`),
    and `list_delimiter` says what stands between the values of lists. `numeric` names columns of numbers:
    rows with anything else in them will be rejected.

    Raises InputError if there are no rows, `label`, `group` or an ignored column is not there, or `label`
    does not suit the task.
    """
    _check_has_rows(profiles)
    names = _label_columns(profiles, label)
    task = _task_with_group(task, group)
    _check_names(profiles, [*ignore, *numeric, *names, *([group] if group else [])])
    _check_grouping(group, label=names, ignore=ignore)
    profiles = _with_values(profiles, missing=missing, not_missing=not_missing)
    profiles = _with_dates(profiles, date_format=date_format, first_year=first_year)
    profiles = _with_lists(profiles, list_delimiter)
    every = profiles
    profiles = [with_numbers_alone(each) if each.name in numeric else each for each in every]
    if both := [name for name in names if name in ignore]:
        raise InputError(
            f"--ignore={both[0]}",
            received="the column of --label",
            expected="other columns: a label is what is predicted",
            action="Leave it out of one of the two.",
        )
    features: list[Feature] = []
    ignored = dict.fromkeys(ignore, "left out by --ignore")
    about_label: list[str] = []
    review = [*_repeated_header(profiles)]
    for before, profile in zip(every, profiles, strict=True):
        review += rejected_remarks(before, profile)
    proposed = propose_labels([profile for profile in profiles if profile.name in names], task=task)
    labels = {each.name: each for each in proposed}
    for profile in (profile for profile in profiles if profile.name not in (*ignored, group)):
        reason = why_useless(profile) if profile.name not in (*labels, *numeric) else ""
        if reason:
            ignored[profile.name] = reason
            continue
        if profile.name in labels:
            features.append(labels[profile.name])
            about_label += missing_label_remarks(profile, features[-1])
            review += label_remarks(profile, features[-1], is_alone=len(labels) == 1)
        else:
            items = next((each.classes for each in proposed if each.is_retrieval), ())
            history = propose_history(profile, items)
            is_numeric = profile.name in numeric
            features.append(history or (propose_number if is_numeric else propose_feature)(profile))
            if history:
                review.append(f"'{profile.name}': lists of the items of '{label}', whose vocabulary it has.")
            elif items and isinstance(features[-1], Categories):
                review.append(_other_lists(profile, label, items))
            review += missing_remarks(profile, features[-1])
        review += feature_remarks(profile, features[-1])
    _check_not_empty(features, ignored)
    for value in _absent(profiles, [*missing, *not_missing]):
        review.append(f"{value!r} of --missing or --not_missing is in no column.")
    features = _with_names(with_runs(features, rows=max((each.rows for each in profiles), default=0)))
    review += [f"'{column}' is ignored: {reason}." for column, reason in ignored.items()]
    if len(labels) > 1:
        about_label.append(_together(proposed))
    if labels and len(features) == len(labels):
        review.append(f"No column is left that '{label}' could be predicted from: a model needs one.")
    elif labels:
        review.append(
            f"Is any feature known only after '{label}' is? Move it to 'ignore': it leaks the label."
        )
    else:
        review.append(candidates(profiles))
    grouping = None
    for profile in (profile for profile in profiles if profile.name == group):
        _check_keys(profile)
        keys, words = _keys(profile), tuple(filter(None, profile.declared_values))
        sizes = sorted(keys.values()) or [1]
        grouping = Group(column=profile.name, length=sizes[-1], missing=words)
        review += _group_remarks(profile, keys, sizes)
    return Proposal(
        schema=Schema(name=name, features=tuple(features), ignore=ignored, group=grouping),
        review=(*about_label, *review),
        about_label=len(about_label),
    )


def _other_lists(profile: ColumnProfile, label: str, items: Sequence[str]) -> str:
    """Says that lists beside the label of a retrieval hold other values than items."""
    known = {*items}
    others = {value: n for value, n in profile.item_counts.items() if value and value not in known}
    total = sum(profile.item_counts.values()) + profile.item_others
    share = (sum(others.values()) + profile.item_others) / max(1, total)
    return (
        f"'{profile.name}': {share:.1%} of its values, such as {excerpt(next(iter(others), ''))!r}, are none "
        f"of the items of '{label}', such as {excerpt(items[0])!r}. If they should be items, write both in "
        f"one way, or let its 'vocabulary' be the 'classes' of '{label}' (a value that is no item counts "
        "as unknown): a model then learns from which items came before."
    )


# --- Rows that are ranked together.


_MUCH_ROOM = 10  # times as many rows as there are
_USUAL = 0.99  # part of the groups


def _task_with_group(task: str | None, group: str | None) -> str | None:
    """The task, which is ranking where there is a group; raises InputError for one without the other."""
    if (group and task not in (None, RANKING)) or (task == RANKING and not group):
        raise InputError(
            f"--task={task}",
            received=f"--group={group}" if group else "no --group",
            expected=f"--group=COLUMN with --task={RANKING}, and with no other task",
            action="Name the column whose equal values say which rows are ranked together."
            if not group
            else "Leave one of the two out.",
        )
    return RANKING if group else task


def _check_grouping(group: str | None, *, label: Sequence[str], ignore: Sequence[str]) -> None:
    if group and (len(label) != 1 or group in (*label, *ignore)):
        raise InputError(
            f"--group={group}",
            received=f"--label={','.join(label) or 'none'}, --ignore={','.join(ignore) or 'none'}",
            expected="one label, and another column for the group, which is not ignored",
            action="Name the column of the relevance with --label.",
        )


def _check_keys(profile: ColumnProfile) -> None:
    if profile.holds_lists or profile.images:
        raise InputError(
            f"--group={profile.name}",
            received="lists" if profile.holds_lists else "images",
            expected="one text or number in each row, the same in all rows of a group",
            action="Name another column.",
        )


def _keys(profile: ColumnProfile) -> dict[str, int]:
    """The rows of each group by its key; words such as NA are keys here, unless the user says otherwise."""
    none = {"", *profile.declared_values}
    return {key: rows for key, rows in profile.counts.items() if key not in none}


def _group_remarks(profile: ColumnProfile, keys: Mapping[str, int], sizes: Sequence[int]) -> Iterator[str]:
    """Yields what to know of groups: `keys` has the rows of each, `sizes` the same ascending, or [1]."""
    named = f"'{profile.name}'"
    longest, middle = sizes[-1], sizes[len(sizes) // 2]
    # The counts hold only so many keys, and `distinct` leaves out words such as NA, which are keys here.
    groups = max(len(sizes), profile.distinct)
    yield (
        f"{named}: {groups:,} groups, of {middle:,} rows in the middle and up to "
        f"{longest:,}, which is the 'length' of each record. Shorter groups are filled up. Rows beyond it "
        "are rejected."
    )
    if missing := sum(profile.counts.values()) - sum(keys.values()):
        share = share_needed(missing, profile.rows)
        yield (
            f"{named}: {missing:,} rows have no group and will be rejected: convert needs "
            f"--max_rejected_fraction={share:g} for them."
        )
    if middle == longest == 1:
        yield f"{named}: each group has one row, so there is nothing to rank."
    if groups == 1:
        yield f"{named}: all rows are in one group, and a model learns from many: name another column."
    yield from none_remarks(profile, keys)
    yield from _long_remarks(profile, keys, sizes)
    yield from twin_remarks(profile, keys, what="groups")


def _long_remarks(profile: ColumnProfile, keys: Mapping[str, int], sizes: Sequence[int]) -> Iterator[str]:
    """Yields what a few long groups cost: a record of any group has room for the longest."""
    rows, room = sum(sizes), len(sizes) * sizes[-1]
    if room <= _MUCH_ROOM * rows:
        return
    longest = max(keys, key=keys.__getitem__)
    usual = sizes[min(math.ceil(_USUAL * len(sizes)), len(sizes) - 1) - 1]
    fitting = sum(size <= usual for size in sizes)
    beyond = sum(size - usual for size in sizes if size > usual)
    yield (
        f"'{profile.name}': records have room for {room:,} rows, {room / rows:,.0f} times as many as there "
        f"are, because of few long groups: {excerpt(longest)!r} has {sizes[-1]:,} rows. If that is no group: "
        f"{flags_of_values('missing', profile, [longest])}. Or set 'length' to {usual:,}, which {fitting:,} "
        f"of {len(sizes):,} groups fit into, and give convert "
        f"--max_rejected_fraction={share_needed(beyond, profile.rows):g} for the {beyond:,} rows beyond."
    )


def _repeated_header(profiles: Sequence[ColumnProfile]) -> Iterator[str]:
    rows = min((_named(profile) for profile in profiles), default=0)
    if rows and len(profiles) > 1:
        yield (
            f"The names of the columns stand again in {rows:,} rows, as where files were joined: they are "
            "no data. Leave them out, for instance with awk 'NR==1{first=$0} NR==1||$0!=first'."
        )


def _named(profile: ColumnProfile) -> int:
    """Counts the rows with the column's own name in it, also behind a byte order mark."""
    name = profile.name
    return sum(profile.counts.get(text, 0) for text in (name, f"\ufeff{name}", f'\ufeff"{name}"'))


def _with_names(features: Sequence[Feature]) -> list[Feature]:
    """The features, named after their columns, but with names that are identifiers."""
    names = identifiers(feature.name for feature in features)
    return [
        dataclasses.replace(feature, name=names[feature.name], column=feature.name)
        if names[feature.name] != feature.name
        else feature
        for feature in features
    ]


def _check_has_rows(profiles: Sequence[ColumnProfile]) -> None:
    if not any(profile.rows or profile.lengths for profile in profiles):
        raise InputError(
            "--input",
            received="0 rows",
            expected="at least one",
            action="Check how the files were written.",
        )


def _check_not_empty(features: Sequence[Feature], ignored: Mapping[str, str]) -> None:
    if not features:
        reasons = "; ".join(f"'{column}': {reason}" for column, reason in ignored.items())
        raise InputError(
            "columns of the input",
            received=f"none that could be a feature ({reasons})",
            expected="at least one",
            action="Check the file; or write the schema by hand.",
        )


def _with_values(
    profiles: Sequence[ColumnProfile], *, missing: Sequence[str], not_missing: Sequence[str]
) -> list[ColumnProfile]:
    """The profiles, with what the user says about their values."""
    names = [profile.name for profile in profiles]
    declared = [_column_and_value("--missing", text, names) for text in missing]
    kept = [_column_and_value("--not_missing", text, names) for text in not_missing]
    found = []
    for profile in profiles:
        here = [value for column, value in declared if column == profile.name]
        here += [value for column, value in declared if not column and same_values(profile.counts, [value])]
        values = [value for column, value in kept if column in (None, profile.name)]
        found.append(dataclasses.replace(profile, declared=tuple(here), kept=tuple(values)))
    return found


def _with_dates(
    profiles: Sequence[ColumnProfile], *, date_format: Sequence[str], first_year: Sequence[str]
) -> list[ColumnProfile]:
    """The profiles, with what the user says about how dates are written."""
    names = [profile.name for profile in profiles]
    formats = [_column_and_value("--date_format", text, names) for text in date_format]
    years = [_column_and_value("--first_year", text, names) for text in first_year]
    for _, format in formats:
        _check_value("--date_format", format, format in FORMATS, f"one of {', '.join(FORMATS)}")
    for _, year in years:
        is_year = year.isdecimal() and 1 <= int(year) <= LAST_FIRST_YEAR
        _check_value("--first_year", year, is_year, f"a year from 1 to {LAST_FIRST_YEAR}")
    return [
        dataclasses.replace(
            profile,
            date_formats=tuple(format for column, format in formats if column in (None, profile.name)),
            first_year=next(
                (int(year) for column, year in years if column in (None, profile.name)), profile.first_year
            ),
        )
        for profile in profiles
    ]


def _check_value(flag: str, value: str, ok: bool, expected: str) -> None:
    if not ok:
        raise InputError(flag, received=repr(value), expected=expected, action="Correct the flag.")


def _absent(profiles: Sequence[ColumnProfile], given: Sequence[str]) -> Iterator[str]:
    """Yields the values, given for all columns, that no column has."""
    names = [profile.name for profile in profiles]
    for text in given:
        column, value = _column_and_value("--missing", text, names)
        if column is None and not any(same_values(profile.counts, [value]) for profile in profiles):
            yield value


def _column_and_value(flag: str, text: str, names: Sequence[str]) -> tuple[str | None, str]:
    """Returns the column, None for all, and the value; the name of a column may hold a `=`."""
    known = [name for name in names if text.startswith(f"{name}=")]
    if known:
        name = max(known, key=len)
        return name, text[len(name) + 1 :]
    column, equals, _ = text.partition("=")
    if equals:
        raise InputError(
            f"{flag}={text}",
            received=f"the column {column!r}",
            expected=f"COLUMN=VALUE, or VALUE for all columns; columns are {', '.join(names)}",
            action=did_you_mean(column, names, otherwise="Correct the name."),
        )
    return None, text


def _label_columns(profiles: Sequence[ColumnProfile], label: str | None) -> tuple[str, ...]:
    """The columns that --label names: one, or several with commas between them."""
    if not label or label in {profile.name for profile in profiles}:
        return (label,) if label else ()
    return tuple(dict.fromkeys(name.strip() for name in label.split(",")))


def _together(labels: Sequence[Label]) -> str:
    names = ", ".join(f"'{label.name}'" for label in labels)
    what = "numbers (multitarget)" if not labels[0].classes else "classes of a row (multilabel)"
    return f"{names}: one model predicts these {len(labels)} {what}. A row that lacks one is rejected."


def _with_lists(profiles: Sequence[ColumnProfile], given: Sequence[str]) -> list[ColumnProfile]:
    """The profiles, those of lists with what the user says that stands between their values."""
    names = [profile.name for profile in profiles]
    delimiters = [_column_and_value("--list_delimiter", text, names) for text in given]
    _check_value(
        "--list_delimiter", "", all(delimiter for _, delimiter in delimiters), "at least one character"
    )
    found = []
    for profile in profiles:
        own = [delimiter for column, delimiter in delimiters if column == profile.name]
        own += [
            delimiter
            for column, delimiter in delimiters
            if column is None and any(delimiter in value for value in profile.counts)
        ]
        found.append(as_lists(profile, own[0]) if own and not profile.holds_lists else profile)
    return found


def _check_names(profiles: Sequence[ColumnProfile], names: Sequence[str]) -> None:
    known = [profile.name for profile in profiles]
    absent = [name for name in names if name not in known]
    if absent:
        with_comma = next((name for name in known if name.startswith(f"{absent[0]},")), None)
        raise InputError(
            "--label, --ignore or --numeric",
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

"""Columns that say nothing about a label: empty ones, constants, ids; and the flag that leaves one out."""

import shlex

from beam_jobs.proposal.column_profile import ColumnProfile, shown
from beam_jobs.proposal.datetimes import propose_datetime, unread_dates
from beam_jobs.proposal.features import looks_like_id, looks_like_text
from beam_jobs.proposal.written_numbers import propose_written
from beam_jobs.sources.pieces.likely_cause import MOST_WRONG

_COUNTED = 20  # rows from which consecutive numbers are no chance
_EMPTY = 0.999  # missing fraction from which a column says nothing


def why_useless(profile: ColumnProfile) -> str:
    """Why a column says nothing about a label; empty if it may."""
    if profile.holds_lists and (len(profile.lengths.keys() - {0}) > 1 or profile.items == "text"):
        sizes = sorted(profile.lengths.keys() - {0})
        return f"lists of {sizes[0]} to {sizes[-1]} values, where a tensor is numbers of one size"
    if profile.are_images or profile.holds_lists:
        return ""
    if profile.undecodable > MOST_WRONG * profile.rows:  # of a text file, which would be refused
        return f"bytes that are no text in {profile.undecodable:,} of {profile.rows:,} rows"
    present = sum(profile.values.values())
    if profile.missing_fraction >= _EMPTY:
        return f"empty in {profile.missing:,} of {profile.rows:,} rows"
    if len(profile.values) == 1 and not profile.missing:
        return f"always '{shown(next(iter(profile.values)))}'"
    dates = unread_dates(profile)
    if dates:
        spelled = ", ".join(map(repr, dates))
        return f"dates that no one format reads ({spelled}), which have to be written alike, as 2024-12-31"
    differs = len(profile.values) == present > 1
    if differs and present >= _COUNTED and _follow_one_another(profile):
        first, last = profile.numbers[0], profile.numbers[-1]
        return f"each whole number from {first:.0f} to {last:.0f} once, as in row numbers"
    is_id = profile.are_whole_numbers and looks_like_id(profile)
    if differs and (
        is_id or (profile.numbers is None and not looks_like_text(profile) and not _needs_reading(profile))
    ):
        return "every value differs, as in an id"
    return ""


def leaving_out(column: str) -> str:
    """The flag for the shell; it takes a list, in which a name that holds a comma or a quote is quoted."""
    escaped = column.replace('"', '""')
    return shlex.quote(f'--ignore="{escaped}"' if set(column) & set(',"') else f"--ignore={column}")


def _follow_one_another(profile: ColumnProfile) -> bool:
    numbers = profile.numbers
    return profile.are_whole_numbers and numbers[-1] - numbers[0] == len(numbers) - 1


def _needs_reading(profile: ColumnProfile) -> bool:
    """Whether the text is a date, or a number written for people."""
    return bool(propose_datetime(profile) or propose_written(profile))

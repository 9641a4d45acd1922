"""A schema for whatever is to be read: a table, folders of images, or rows of tokens."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence

from beam_jobs.proposal.column_profile import ColumnProfile
from beam_jobs.proposal.fixed_columns import propose_images, propose_tokens
from beam_jobs.proposal.leaks import leak_remarks
from beam_jobs.proposal.profiles import most_rows, read_profiles
from beam_jobs.proposal.table import Proposal, propose
from beam_jobs.proposal.useless import leaving_out
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.pieces import partitions, stamps
from beam_jobs.sources.pieces.files import COMPRESSION
from beam_jobs.sources.pieces.source import Input, Piece, Source
from beam_jobs.sources.tokens.token_rows import TokenRows
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.names import ascii_words
from pipeline.data.schema.schema import Schema

_SPLIT_AT_END = re.compile(r"(^|_)(train|training|validation|valid|val|dev|test|testing|eval)$")


def propose_from(
    source: Source,
    inputs: Sequence[Input],
    *,
    name: str | None = None,
    label: str | None = None,
    task: str | None = None,
    ignore: Sequence[str] = (),
    max_rows: int,
) -> Proposal:
    """Reads up to `max_rows` rows or image headers; `name` is that of the first input unless it is given."""
    name = name or _name_from(inputs[0].location)
    if isinstance(source, TokenRows):
        return propose_tokens(source, name=name)
    pieces = source.pieces(inputs)
    if isinstance(source, ImageFolders):
        return propose_images(source, pieces, name=name, max_rows=max_rows)
    profiles, remarks, are_of_all_rows = read_profiles(source, pieces, max_rows=max_rows)
    proposal = propose(profiles, name=name, label=label, task=task, ignore=ignore)
    leaks = leak_remarks(source, pieces, proposal.schema) if label else []
    stamps.check_unchanged(pieces)
    return dataclasses.replace(
        proposal,
        review=(*remarks, *leaks, *proposal.review, *_dated_folders(pieces, proposal.schema)),
        looked_at=_looked_at(profiles, max_rows, are_of_all_rows),
    )


def _dated_folders(pieces: Sequence[Piece], schema: Schema) -> Iterator[str]:
    """Says what a date in the names of folders means for a model that is trained again as folders come."""
    in_names = {column for piece in pieces for path in piece.paths for column in partitions.values_of(path)}
    for feature in schema.of_kind(Datetime):
        if feature.source_column in in_names:
            yield (
                f"'{feature.source_column}' is a date in the names of folders. A model that is retrained as "
                f"folders come has never seen that of the next one. To leave it out: "
                f"{leaving_out(feature.source_column)}."
            )


def _looked_at(profiles: Sequence[ColumnProfile], max_rows: int, are_all: bool) -> str:
    rows = max((profile.rows for profile in profiles), default=0)
    if are_all:
        return f"All {rows:,} rows were looked at."
    is_wide = most_rows(len(profiles), max_rows) < max_rows
    why = f"the table has {len(profiles):,} columns" if is_wide else f"--max_rows={max_rows}"
    return f"Only {rows:,} rows were looked at ({why}): others may hold other values."


def _name_from(location: str) -> str:
    """That of the file or folder, else of the folder around it; a dataset is not called after a split."""
    path = pathlib.PurePath(location)
    stem = path.with_suffix("").stem if path.suffix in COMPRESSION else path.stem
    return _identifier(stem) or _identifier(path.parent.name) or "dataset"


def _identifier(name: str) -> str:
    """`name` in lower case, without the split at its end; empty if nothing is left."""
    words = ascii_words(name).lower().strip("_0123456789")
    return _SPLIT_AT_END.sub("", words).strip("_0123456789")

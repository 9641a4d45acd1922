"""The raw rows of a dataset's rows: where each came from, and its text where that can still be read.

Meant for messages about a few rows: whatever is missing, changed or damaged, an answer says less, and none
fails. Standard library and numpy only.
"""

import collections
import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.origins import raw_text
from pipeline.data.dataset.origins.origin import Origin
from pipeline.data.dataset.origins.reader import Found, Origins, origins_of
from pipeline.data.errors import InputError
from pipeline.data.printable import printable


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawRow:
    """A raw row."""

    origin: Origin
    folder: str  # the directory that `origin.file` is in: an absolute path, or a location such as gs://…/
    is_line: bool  # whether `origin.row` is a line of the file
    text: str | None  # as it stands in the file; None where that is no text, changed since, or out of reach

    def __str__(self) -> str:
        """`visits.csv line 26`, in one line whatever the file is called."""
        place = "" if self.origin.row is None else f" {'line' if self.is_line else 'row'} {self.origin.row:,}"
        return printable(self.origin.file + place)


def raw_rows(dataset: Dataset, places: Sequence[tuple[str, int]]) -> list[RawRow | None]:
    """The raw row of each of `places`: a shard, as the manifest calls it, and a row's number there, from 0.

    None where the dataset does not know: an earlier version or `--noorigins` wrote it, or its origins were
    deleted or are damaged (`verify` says so). A text is read from at most 256 MiB of its file.
    """
    found: list[RawRow | None] = [None] * len(places)
    by_dataset = collections.defaultdict(list)
    for at, (shard, row) in enumerate(places):
        owner, name = dataset.owner(shard)
        by_dataset[owner.directory].append((at, owner, (name, row)))
    for some in by_dataset.values():
        for (at, *_), raw in zip(some, _of_published(some[0][1], [one for *_, one in some]), strict=True):
            found[at] = raw
    return found


def _of_published(dataset: Dataset, places: Sequence[tuple[str, int]]) -> list[RawRow | None]:
    """The same of one published dataset."""
    with contextlib.suppress(InputError):  # the list of files is damaged
        if origins := origins_of(dataset):
            return _with_texts(_found(origins, places), origins)
    return [None] * len(places)


def _found(origins: Origins, places: Sequence[tuple[str, int]]) -> list[Found | None]:
    found: list[Found | None] = [None] * len(places)
    by_shard = collections.defaultdict(list)
    for at, (shard, _) in enumerate(places):
        by_shard[shard].append(at)
    for shard, some in by_shard.items():
        with contextlib.suppress(InputError):  # the origins of this shard are damaged
            ordinals = np.array([places[at][1] for at in some], np.int64)
            for at, place in zip(some, origins.found(shard, ordinals), strict=True):
                found[at] = place
    return found


def _with_texts(found: Sequence[Found | None], origins: Origins) -> list[RawRow | None]:
    folder = origins.folder
    wanted = collections.defaultdict(set)
    for place in found:
        if place and place.row and folder.line_ends:
            wanted[place.entry].add(place.row)
    texts = {
        entry: raw_text.rows(pathlib.Path(folder.root + entry.name), entry, lines, folder.line_ends)
        for entry, lines in wanted.items()
    }
    return [
        place
        and RawRow(
            origin=place.origin,
            folder=folder.root,
            is_line=bool(folder.line_ends),
            text=texts.get(place.entry, {}).get(place.row),
        )
        for place in found
    ]

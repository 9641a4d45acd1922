"""Finds rows of a holdout that training saw: by the content of each row, not by its file or key.

It needs 10 bytes of memory for each row of training, and 17 for each row of the largest shard. 100 million
rows of 160 bytes in blocks, against a holdout of 1 million, took 1.0 GB and 24 s of CPU. For records, it
reads only indexes.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
from scipy import stats

from pipeline.base.errors import InputError
from pipeline.base.progress import Bar
from pipeline.data.dataset import blocks, shards
from pipeline.data.dataset.manifest import Dataset, Shard
from pipeline.data.dataset.row_hashes import RowHasher, look_up
from pipeline.data.dataset.selection import selected_ranges
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES

# --- Hashes of stored rows with their labels: 64 bits, equal for equal rows of one form.


_ROWS_AT_ONCE = 1 << 12  # more rows do not fit into the cache, and cost up to 9 times as much


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardPart:
    """Rows [first, end) of one shard, numbered from 0 there."""

    shard: Shard
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def content(self) -> tuple[str, int, int]:
        """A key that is equal for parts with the same bytes, for example if a span was converted twice."""
        return self.shard.sha256, self.first, self.end


def shard_parts(dataset: Dataset, expression: str) -> list[ShardPart]:
    """Returns the selection of a split expression, shard by shard, in stored order."""
    splits, ranges = selected_ranges(dataset, expression)
    parts, start = [], 0
    for shard in (shard for split in splits for shard in dataset.shards(split)):
        for first, end in ranges:
            inside = max(first - start, 0), min(end - start, shard.rows)
            if inside[0] < inside[1]:
                parts.append(ShardPart(shard=shard, first=inside[0], end=inside[1]))
        start += shard.rows
    return parts


def hashes_of_parts(
    dataset: Dataset, parts: list[ShardPart], *, title: str
) -> Iterator[tuple[ShardPart, np.ndarray]]:
    """Yields each part with the hashes of its rows, uint64 [rows]; one part is in memory at a time.

    For records, the index beside a shard has the hashes. Rows of blocks are hashed here, from the bytes of
    the file: 80 ns for a row of 160 bytes on one core. Checksums are compared by those who read the rows.

    Raises:
      InputError: an index does not fit its shard.
    """
    of_layout = {"rows": _of_records, "blocks": _of_block_rows}[dataset.manifest.layout]
    for part in Bar(parts, desc=title, unit="shard"):
        yield part, of_layout(dataset, part)


def stored_form(dataset: Dataset) -> tuple:
    """Returns a description of the form of stored rows, on which their bytes depend besides the values;
    hashes of rows in two forms cannot be compared.
    """
    is_in_blocks = dataset.manifest.layout == "blocks"
    return dataset.manifest.layout, *(
        (
            *(feature.name, feature.dtype, feature.shape),
            *(getattr(feature, "offset", 0), getattr(feature, "classes", ())),
            blocks.field(feature) if is_in_blocks else None,
        )
        for feature in dataset.schema.features
    )


def _of_records(dataset: Dataset, part: ShardPart) -> np.ndarray:
    return shards.load_checked_index(dataset, part.shard).hashes[part.first : part.end]


def _of_block_rows(dataset: Dataset, part: ShardPart) -> np.ndarray:
    rows = _mapped_rows(dataset, part.shard)  # (blocks, rows in a block, words)
    in_block, hasher = rows.shape[1], RowHasher(rows.shape[2])
    hashes = np.empty(len(part), np.uint64)
    for first in range(part.first, part.end, _ROWS_AT_ONCE):
        numbers = np.arange(first, min(first + _ROWS_AT_ONCE, part.end))
        some = rows[numbers // in_block, numbers % in_block]
        hashes[first - part.first :][: len(numbers)] = hasher(some)
    return hashes


def _mapped_rows(dataset: Dataset, shard: Shard) -> np.ndarray:
    """Maps the rows of a shard's file, uint16 [blocks, rows in a block, words], without reading them.

    In the last block, rows after the last row of the shard repeat others.
    """
    geometry, frame = blocks.geometry(dataset.schema), blocks.frame_of_schema(dataset.schema)
    whole = frame.size + FRAME_BYTES
    mapped = np.memmap(dataset.directory / shard.path, np.uint8, "r").reshape(-1, whole)
    start = HEADER_BYTES + frame.rows_at
    payloads = mapped[:, start : start + geometry.payload]
    return payloads.view("<u2").reshape(len(mapped), geometry.rows, geometry.width // blocks.WORD_BYTES)


# --- The overlap of two datasets.

_EXAMPLES = 3  # rows that a message shows
_BEYOND = 1e-3  # the chance beyond the upper end of an interval


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPlace:
    """The place where a row is stored."""

    dataset: str  # directory of the dataset
    split: str
    shard: str  # name of the shard in the dataset's manifest
    row: int  # number in the shard, from 0

    def __str__(self) -> str:
        return f"{pathlib.PurePath(self.dataset, self.shard)} row {self.row:,}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlap:
    """Rows of a holdout whose content is also in the rows of training.

    Attributes:
      holdout: the dataset and split, for messages.
      rows: the number of rows of the holdout.
      seen: how many of them training saw too.
      training_rows: the number of rows of training; shards of the same bytes count once.
      repeated: how many training rows equal another training row.
      examples: the first rows that training saw.
    """

    holdout: str
    rows: int
    seen: int
    training_rows: int
    repeated: int
    examples: tuple[RowPlace, ...]

    @property
    def fraction(self) -> float:
        """The share of the holdout's rows that training saw."""
        return self.seen / self.rows

    @property
    def natural(self) -> float:
        """The probability that a new row, drawn as training's were, equals one of them.

        It is 1 − N₁/n, where N₁ of the n rows of training are unique: I. J. Good, "The
        population frequencies of species and the estimation of population parameters", Biometrika 40 (1953).
        """
        return self.repeated / self.training_rows

    def allowed(self, most: float = 0.0) -> int:
        """Returns how many rows may be seen: the share `most`, and those that repeat by nature.

        Chance acts twice: on the rate of training, and on the holdout's number. The rate is the upper end of
        its interval (C. Clopper and E. Pearson, Biometrika 26, 1934), for half as many rows, because equal
        rows come in pairs. The holdout's number is the upper end of the binomial distribution with this rate.
        If holdouts are drawn like the training rows, fewer than 1 in 1,000 of them hold more.
        """
        if not self.repeated:
            return int(most * self.rows)
        pairs, alone = self.repeated / 2, (self.training_rows - self.repeated) / 2
        rate = stats.beta.ppf(1 - _BEYOND, pairs + 1, alone) if alone else 1.0
        natural = stats.binom.ppf(1 - _BEYOND, self.rows, rate)
        return min(self.rows, int(most * self.rows) + int(natural))


def overlap(training: Dataset, training_split: str, holdout: Dataset, holdout_split: str) -> Overlap:
    """Searches for every row of the holdout among those of training.

    Each dataset may be several spans read as one, and each split may be an expression, such as `train[:90%]`.

    Raises:
      InputError: the two store rows in different forms, an index does not fit its shard, or a split is
        missing or has no rows.
    """
    _require_one_form(training, holdout)
    known, repeated = _known(training, training_split)
    parts = shard_parts(holdout, holdout_split)
    seen, examples = 0, []
    for part, hashes in hashes_of_parts(holdout, parts, title="hash the holdout"):
        found = np.flatnonzero(look_up(hashes, known)[1])
        seen += len(found)
        examples += [_place(holdout, part, int(row)) for row in found[: _EXAMPLES - len(examples)]]
    return Overlap(
        holdout=f"{holdout}, split '{holdout_split}'",
        rows=sum(map(len, parts)),
        seen=seen,
        training_rows=len(known),
        repeated=repeated,
        examples=tuple(examples),
    )


def require_disjoint(found: Overlap, *, most: float = 0.0) -> None:
    """Raises InputError where training saw more of the holdout than repeats by nature.

    Different rows of few columns may be equal. Training's own rows show how often: see `Overlap.natural`. So
    a table without repeated rows allows no overlap. A table in which most rows repeat cannot show leakage by
    content; only a key can separate its holdout.

    Args:
      most: the share of the holdout's rows that may be seen in addition.
    """
    allowed = found.allowed(most)
    if found.seen > allowed:
        raise InputError(
            f"holdout {found.holdout}",
            received=f"{found.seen:,} of {found.rows:,} rows ({found.fraction:.2%}) that training saw too, "
            f"for example {', '.join(map(str, found.examples))}",
            expected=f"at most {allowed:,}: {found.natural:.2%} of training's own rows repeat, and "
            f"{most:.2%} may be seen besides",
            action="Take a holdout later in time, or one that is disjoint by key: split_by in the schema.",
        )


def _known(dataset: Dataset, expression: str) -> tuple[np.ndarray, int]:
    """Returns the hashes of all rows, sorted uint64 [n], and how many rows equal another one.

    Shards with the same bytes count once; otherwise a span that was converted twice would look like a table
    in which rows repeat by nature.
    """
    parts = [*{part.content: part for part in shard_parts(dataset, expression)}.values()]
    known, filled = np.empty(sum(map(len, parts)), np.uint64), 0
    for part, hashes in hashes_of_parts(dataset, parts, title="hash training's rows"):
        known[filled : filled + len(part)] = hashes
        filled += len(part)
    known.sort()
    new = np.ones(len(known) + 1, bool)  # True where a hash differs from the one before, and at the end
    np.not_equal(known[1:], known[:-1], out=new[1:-1])
    return known, len(known) - int(np.count_nonzero(new[1:] & new[:-1]))


def _place(dataset: Dataset, part: ShardPart, row: int) -> RowPlace:
    member, name = dataset.owner(part.shard.path)
    splits = member.manifest.splits.items()
    split = next(split for split, shards in splits if any(shard.path == name for shard in shards))
    return RowPlace(dataset=str(member.directory), split=split, shard=name, row=part.first + row)


def _require_one_form(training: Dataset, holdout: Dataset) -> None:
    if stored_form(training) != stored_form(holdout):
        raise InputError(
            f"holdout {holdout}",
            received=f"rows in layout '{holdout.manifest.layout}', of schema "
            f"{holdout.schema.fingerprint[:12]}",
            expected=f"layout '{training.manifest.layout}' and features as in schema "
            f"{training.schema.fingerprint[:12]}, so that equal rows have equal bytes",
            action="Convert the holdout again with the schema and the --layout of the training data.",
        )

"""A hash of the content of each stored row, the label included: 64 bits, equal for equal rows of one form.

Of records, the index beside a shard has them. A record of blocks holds many rows, so these are hashed here,
from the bytes of the file: 80 ns for a row of 160 bytes on one core. No checksum is looked at: that is done
where the rows are read to train or to score.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from pipeline.data.dataset import block_frame, blocks
from pipeline.data.dataset.checks import shard_check
from pipeline.data.dataset.manifest import Dataset, Shard
from pipeline.data.dataset.selection import selected_ranges
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES

_ROWS_AT_ONCE = 1 << 12  # more fall out of the cache, and cost up to 9 times as much
_SEED = 20261101  # of the coefficients: any, but the same for all rows that are compared
_PROGRESS_AFTER_S = 2.0


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
        """Equal for parts of the same bytes, such as those of a span that was converted twice."""
        return self.shard.sha256, self.first, self.end


def shard_parts(dataset: Dataset, expression: str) -> list[ShardPart]:
    """What a split expression selects, shard by shard, in stored order."""
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
    dataset: Dataset, parts: list[ShardPart], *, told: str
) -> Iterator[tuple[ShardPart, np.ndarray]]:
    """Each part with the hashes of its rows, uint64 [rows]; one part is in memory at a time.

    Raises:
      InputError: an index does not fit its shard.
    """
    of_layout = {"rows": _of_records, "blocks": _of_block_rows}[dataset.manifest.layout]
    for part in tqdm(parts, desc=told, unit="shard", delay=_PROGRESS_AFTER_S, leave=False, disable=None):
        yield part, of_layout(dataset, part)


def stored_form(dataset: Dataset) -> tuple:
    """What the bytes of a row depend on besides its values: only hashes of one form can be compared."""
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
    return shard_check.checked_index(dataset, part.shard).hashes[part.first : part.end]


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
    """Rows of a shard as they lie in its file, uint16 [blocks, rows in a block, words]; nothing is read yet.

    The last block's rows beyond the shard's repeat others.
    """
    geometry, frame = blocks.geometry(dataset.schema), block_frame.of_schema(dataset.schema)
    whole = frame.size + FRAME_BYTES
    mapped = np.memmap(dataset.directory / shard.path, np.uint8, "r").reshape(-1, whole)
    start = HEADER_BYTES + frame.rows_at
    payloads = mapped[:, start : start + geometry.payload]
    return payloads.view("<u2").reshape(len(mapped), geometry.rows, geometry.width // blocks.WORD_BYTES)


class RowHasher:
    """Hashes rows of `words` 16-bit words.

    Two sums over 32-bit words x of a row, a_0 + a_1·x_1 + a_2·x_2 + … modulo 2^64, the upper half of each,
    with coefficients that were drawn once. Two rows that differ have the same 64 bits with probability 2^-64,
    however alike they are: D. Lemire and O. Kaser, "Strongly universal string hashing is fast", The Computer
    Journal 57 (2014), the family Multilinear.
    """

    def __init__(self, words: int) -> None:
        self._pairs = -(-words // 2)
        draws = np.random.default_rng(_SEED).integers(0, 1 << 64, (self._pairs + 1, 2), np.uint64)
        self._first, self._factors = draws[0], draws[1:]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Rows, uint16 [n, words] → uint64 [n]."""
        filled = np.zeros((len(rows), 2 * self._pairs), "<u2")
        filled[:, : rows.shape[1]] = rows
        sums = filled.view("<u4").astype(np.uint64) @ self._factors + self._first  # (n, 2)
        upper = sums >> np.uint64(32)
        return upper[:, 0] << np.uint64(32) | upper[:, 1]

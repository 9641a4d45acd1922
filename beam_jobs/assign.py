"""Which split a row belongs to, and where in it: arithmetic on a keyed hash of the row's id.

A row's split depends on nothing but its id, so it never moves when other rows are added. Within a split,
rows stand in the order of a second, independent hash; shard i of n holds the i-th n-th of its range. So
the output does not depend on the order of the input, the runner, or the number of workers.
"""

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.cells import text as cell_text

# What a hash is for: different purposes must not correlate (`person` of BLAKE2 keeps them apart).
SPLIT = b"penstock split"
ORDER = b"penstock order"

_CELL_END = b"\x1f"  # a row whose cells hold this byte may share an id with another; that is harmless


def row_ids(columns: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """The cells of columns `names` (all of them if none are named) as bytes, joined: binary [rows]."""
    # In name order, so that a file with its columns in another order holds the same rows.
    cells = [cell_text.to_bytes(columns.column(name)) for name in sorted(names or columns.schema.names)]
    return pc.binary_join_element_wise(
        *cells, pa.scalar(_CELL_END, pa.binary()), null_handling="replace", null_replacement=b""
    )


def hash_ids(ids: pa.Array, *, purpose: bytes) -> np.ndarray:
    """uint64 [rows], uniform; equal ids give equal hashes."""
    digests = [
        hashlib.blake2b(row_id, digest_size=8, person=purpose).digest()
        for row_id in ids.cast(pa.binary()).to_pylist()
    ]
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def split_of(hashes: np.ndarray, fractions: Sequence[Fraction]) -> np.ndarray:
    """Index into `fractions` (which sum to 1) for each of `hashes`."""
    ends = np.cumsum([Fraction(0), *fractions])[1:-1]
    boundaries = np.array([int(end * (1 << 64)) for end in ends], np.uint64)
    return np.searchsorted(boundaries, hashes, side="right")


def shard_of(order: np.ndarray, shards: int) -> np.ndarray:
    """Shard for each row: contiguous ranges of `order`, of equal width. At most 2**32 shards."""
    high = order >> np.uint64(32)
    return ((high * np.uint64(shards)) >> np.uint64(32)).astype(np.int64)

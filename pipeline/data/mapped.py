"""Rows of local blocks, mapped into memory: gathered by number, nothing read or parsed.

A shard of blocks is one array of rows of fixed width in which the rows of data start at fixed places
(`pipeline/data/blocks.py`). This way passes by the records' CRCs, so every shard's SHA-256 is compared with
the manifest's when it is mapped, unless all checksums were compared before.
"""

import concurrent.futures

import tensorflow as tf
from tqdm import tqdm

from pipeline.data import block_frame, blocks, manifest
from pipeline.data.block_rows import words_in_row
from pipeline.data.errors import InputError
from pipeline.data.framing import FRAME_BYTES, HEADER_BYTES
from pipeline.data.selection import Selection

PROGRESS_AFTER_S = 2.0


class MappedRows:
    """The rows of all shards of a selection. Raises InputError if a shard is not what was published."""

    def __init__(self, selection: Selection) -> None:
        shards, self._schema = selection.shards, selection.dataset.schema
        geometry, frame = blocks.geometry(self._schema), block_frame.of_schema(self._schema)
        if not selection.is_checked:
            check_digests(selection)
        self._starts = tf.constant(shards.row_starts)
        self._rows_in_block = geometry.rows
        # In rows' widths, of which both are whole multiples: from block to block, and before a block's rows.
        self._stride = (frame.size + FRAME_BYTES) // geometry.width
        self._first = (HEADER_BYTES + frame.rows_at) // geometry.width
        with tf.device("CPU:0"):
            self._maps = [
                tf.raw_ops.ImmutableConst(
                    dtype=tf.uint16,
                    shape=[int(size) // geometry.width, words_in_row(self._schema)],
                    memory_region_name=path,
                )
                for path, size in zip(shards.paths, shards.bytes, strict=True)
            ]

    def gather(self, rows: tf.Tensor) -> tf.Tensor:
        """The words, uint16 [n, words], of rows int64 [n], numbered over all shards."""
        if len(self._maps) == 1:
            return tf.gather(self._maps[0], self._place(rows))
        shards = tf.searchsorted(self._starts, rows, side="right") - 1  # (rows), int32
        places = self._place(rows - tf.gather(self._starts, shards))
        parts = tf.dynamic_partition(places, shards, len(self._maps))
        back = tf.dynamic_partition(tf.range(tf.size(rows)), shards, len(self._maps))
        found = [tf.gather(mapped, part) for mapped, part in zip(self._maps, parts, strict=True)]
        return tf.ensure_shape(tf.dynamic_stitch(back, found), [*rows.shape, self._maps[0].shape[1]])

    def _place(self, rows: tf.Tensor) -> tf.Tensor:
        """Where in its shard's array a row lies that has this number in its shard."""
        block = tf.truncatediv(rows, self._rows_in_block)
        return rows + block * (self._stride - self._rows_in_block) + self._first


def check_digests(selection: Selection) -> None:
    """Raises InputError naming the shard whose SHA-256 is not the manifest's."""
    dataset, names = selection.dataset, set(selection.shards.names)
    shards = [s for each in dataset.manifest.splits.values() for s in each if s.path in names]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        digests = pool.map(lambda shard: manifest.sha256(dataset.directory / shard.path), shards)
        checked = tqdm(digests, total=len(shards), desc="checking", unit="shard", delay=PROGRESS_AFTER_S)
        for shard, digest in zip(shards, checked, strict=True):
            if digest != shard.sha256:
                raise InputError(
                    f"dataset file {dataset.directory / shard.path}",
                    received=f"SHA-256 {digest[:12]}…",
                    expected=f"{shard.sha256[:12]}…, as published",
                    action="Restore it from a copy, or convert the raw data again; to lose only what is "
                    "damaged, train with --config.shuffle=windows and --max_corrupt_records.",
                )

"""The origins of one shard as they are written: `pipeline/data/dataset/origins/rows.py` has the format."""

from collections.abc import Sequence

import numpy as np
from apache_beam.io.filesystems import FileSystems

from beam_jobs.records.shard_file import ShardDigest
from pipeline.data.dataset.origins import rows


def write(path: str, places: Sequence[np.ndarray], *, files_id: bytes, of: ShardDigest) -> None:
    """Writes the `places`, uint64 [n] each, of all rows of a shard, in stored order."""
    together = np.concatenate([np.zeros(0, np.uint64), *places])
    with FileSystems.create(path, compression_type="uncompressed") as file:
        for part in rows.packed(together, files_id=files_id, shard_sha256=of.sha256):
            file.write(part)

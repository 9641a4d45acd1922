"""Records that are in several splits of what a conversion has written, from the indexes beside its shards."""

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from apache_beam.io.filesystems import FileSystems

from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.result import shards_of
from beam_jobs.conversion.shard_writer import WrittenShard
from beam_jobs.launch.outcome import Outcome
from beam_jobs.sources.bytes.example_text import example_text
from beam_jobs.validation import leakage
from beam_jobs.validation.anomalies import Anomaly, Policy
from beam_jobs.validation.leakage import Leak
from pipeline.data.dataset import index
from pipeline.data.dataset.index import Index
from pipeline.data.dataset.tfrecord import HEADER_BYTES
from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema

_UNCOMPRESSED = "uncompressed"


def check_countable(policy: Policy, *, layout: str) -> None:
    """Raises InputError if leakage is to stop a conversion to blocks, whose indexes have no hash a row."""
    if layout == "blocks" and policy.severities.get(leakage.KIND) == "error":
        raise InputError(
            f"--severity={leakage.KIND}=error",
            received="--layout=blocks",
            expected="--layout=rows, where the index has a hash of each row",
            action="Leave one of them out; beam_jobs.verify counts the leaks of a dataset of blocks.",
        )


def anomalies(outcome: Outcome, plan: Plan, schema: Schema, policy: Policy) -> list[Anomaly]:
    """Of each split, the records that a split before it has too; none where records are blocks of rows."""
    if plan.layout == "blocks" or policy.severity(leakage.KIND) == "ignore" or len(plan.shards) == 1:
        return []
    shards = {split: shards_of(outcome, split) for split in plan.shards}
    hashes = {split: [functools.partial(_hashes, shard) for shard in of] for split, of in shards.items()}
    records = {split: sum(shard.records for shard in of) for split, of in shards.items()}
    found = (
        leakage.anomaly(leak, _examples(leak, shards[leak.split], schema), policy, of=records[leak.split])
        for leak in leakage.leaks(hashes, records=sum(records.values()))
    )
    return [anomaly for anomaly in found if anomaly]


def _examples(leak: Leak, shards: Sequence[WrittenShard], schema: Schema) -> list[str]:
    """Some of the records, each with what it holds."""
    return [
        f"{shard.file_name} record {record:,} ({example_text(_record(shard, record), schema)})"
        for shard, record in itertools.islice(_addresses(leak, shards), len(leak.hashes))
    ]


def _addresses(leak: Leak, shards: Sequence[WrittenShard]) -> Iterator[tuple[WrittenShard, int]]:
    """Shard and number of records with the leak's hashes."""
    left = len(leak.hashes)
    for shard in shards:
        for record in np.flatnonzero(np.isin(_hashes(shard), np.array(leak.hashes, np.uint64))).tolist():
            yield shard, record
            left -= 1
        if left <= 0:
            return


def _record(shard: WrittenShard, number: int) -> bytes:
    found = _index(shard)
    with FileSystems.open(shard.path, compression_type=_UNCOMPRESSED) as file:
        file.seek(int(found.offsets[number]) + HEADER_BYTES)
        return file.read(int(found.lengths[number]))


def _hashes(shard: WrittenShard) -> np.ndarray:
    return _index(shard).hashes


def _index(shard: WrittenShard) -> Index:
    with FileSystems.open(shard.index_path, compression_type=_UNCOMPRESSED) as file:
        return index.loads(file.read(), shard.index_path)

"""Records of a dataset that are in several of its splits."""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from beam_jobs.sources.bytes.example_text import example_text
from beam_jobs.validation import leakage
from beam_jobs.validation.anomalies import Anomaly, Policy
from beam_jobs.validation.leakage import Leak
from beam_jobs.verification.dataset import ReadSplit, RowAddress, Verified
from pipeline.data.dataset.tfrecord import HEADER_BYTES


def leaks(verified: Verified, policy: Policy) -> tuple[Anomaly, ...]:
    """Of each split, the rows that a split before it has too."""
    contents = {name: [functools.partial(_contents, split)] for name, split in verified.splits.items()}
    found = (
        leakage.anomaly(
            leak,
            _examples(leak, verified),
            policy,
            of=len(verified.splits[leak.split].contents),
        )
        for leak in leakage.leaks(contents, records=verified.rows)
    )
    return tuple(anomaly for anomaly in found if anomaly)


def _contents(split: ReadSplit) -> np.ndarray:
    return split.contents


def _examples(leak: Leak, verified: Verified) -> list[str]:
    """Addresses of rows and, of those that are records of their own, what they hold."""
    split = verified.splits[leak.split]
    addresses = _addresses(leak, split)
    if verified.manifest.layout != "rows":
        return [*map(str, addresses)]
    records = (_record(verified.directory, split, address) for address in addresses)
    return [
        f"{address} ({example_text(record, verified.schema)})"
        for address, record in zip(addresses, records, strict=True)
    ]


def _record(directory: pathlib.Path, split: ReadSplit, address: RowAddress) -> bytes:
    [known] = (shard.records for shard in split.shards if shard.path == address.shard)
    [found] = known[known["ordinal"] == address.record]
    with (directory / address.shard).open("rb") as file:
        file.seek(int(found["offset"]) + HEADER_BYTES)
        return file.read(int(found["length"]))


def _addresses(leak: Leak, split: ReadSplit) -> Sequence[RowAddress]:
    positions = np.flatnonzero(np.isin(split.contents, np.array(leak.hashes, np.uint64)))
    return [split.address(position) for position in positions[: len(leak.hashes)].tolist()]

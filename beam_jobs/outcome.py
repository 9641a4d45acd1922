"""What the workers tell the launcher at the end of a run: one small file with everything but the records."""

import dataclasses
import pickle
from collections.abc import Mapping, Sequence

from apache_beam.io.filesystems import FileSystems

from beam_jobs.plan import Plan
from beam_jobs.rejected import Rejected
from beam_jobs.write import WrittenShard
from pipeline.data.errors import InputError
from pipeline.data.statistics import SplitStatistics

FILE_NAME = "outcome"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counts come from the data that flowed, not from runner metrics, which may be estimates."""

    rows_read: int
    rejected: Rejected
    shards: Sequence[WrittenShard]
    statistics: Mapping[str, SplitStatistics]

    @property
    def rows_written(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def statistics_of(self, plan: Plan) -> dict[str, SplitStatistics]:
        """In the plan's order of splits, those without a row left out."""
        return {split: self.statistics[split] for split in plan.shards if split in self.statistics}

    def shards_of(self, split: str) -> list[WrittenShard]:
        mine = (shard for shard in self.shards if shard.split == split)
        return sorted(mine, key=lambda shard: shard.number)


def save(
    path: str,
    *,
    rows_read: int,
    rejected: Rejected,
    shards: Sequence[WrittenShard],
    statistics: Mapping[str, bytes],
) -> None:
    """`statistics` are pickled `SplitStatistics`."""
    outcome = Outcome(
        rows_read=rows_read,
        rejected=rejected,
        shards=tuple(shards),
        statistics={split: pickle.loads(measured) for split, measured in statistics.items()},
    )
    with FileSystems.create(path, compression_type="uncompressed") as file:
        file.write(pickle.dumps(outcome))


def load(path: str) -> Outcome:
    with FileSystems.open(path, compression_type="uncompressed") as file:
        return pickle.loads(file.read())


def check_reconciled(outcome: Outcome, plan: Plan) -> None:
    """Raises InputError unless every row read was written or rejected, once, in the shards planned."""
    written, rejected = outcome.rows_written, outcome.rejected.rows
    planned = sorted(plan.shard_keys())
    complete = sorted((shard.split, shard.number) for shard in outcome.shards) == planned
    described = sum(split.examples for split in outcome.statistics.values())
    if outcome.rows_read != written + rejected or described != written or not complete:
        raise InputError(
            "the rows that came out of the run",
            received=f"{written:,} written, {described:,} in the statistics, {rejected:,} rejected, "
            f"{len(outcome.shards)} shards",
            expected=f"{outcome.rows_read:,} rows in all, {len(planned)} shards",
            action="The runner lost or repeated rows; nothing was published. Use --runner=FnApiRunner.",
        )


def check_not_empty(outcome: Outcome, plan: Plan) -> None:
    """Raises InputError if there was no row at all, or none for a split that files were given for."""
    empty = [split for split in plan.pinned if not sum(s.rows for s in outcome.shards_of(split))]
    if empty or not outcome.rows_read:
        raise InputError(
            f"the input of split '{empty[0]}'" if empty else "the input as a whole",
            received="0 rows",
            expected="at least one row that can be converted",
            action="Check how these files were written.",
        )

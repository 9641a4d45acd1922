"""What came out of a conversion, by split, and whether it is all that went in."""

from beam_jobs.conversion.plan import Plan
from beam_jobs.conversion.shard_writer import WrittenShard
from beam_jobs.launch.outcome import Outcome
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_file
from pipeline.data.statistics.cursor import DamagedError


def gathered_of(outcome: Outcome, plan: Plan) -> dict[str, bytes]:
    """What was gathered of each split, in the plan's order."""
    return {split: outcome.statistics[split] for split in plan.shards if split in outcome.statistics}


def statistics_of(outcome: Outcome, plan: Plan, schema: Schema) -> dict[str, SplitStatistics]:
    """Statistics by split, in the plan's order.

    Raises InputError where a split's are not what a worker of this run sent.
    """
    gathered = gathered_of(outcome, plan)
    try:
        return {split: accumulator_file.statistics_of(one, schema) for split, one in gathered.items()}
    except DamagedError as error:
        raise InputError(
            "the statistics that came out of the run",
            received=str(error),
            expected="what the workers of this run measured",
            action="Nothing was published. Somebody else writes there: choose another directory.",
        ) from None


def shards_of(outcome: Outcome, split: str) -> list[WrittenShard]:
    return sorted((file for file in outcome.files if file.split == split), key=lambda shard: shard.number)


def check_reconciled(outcome: Outcome, plan: Plan, schema: Schema) -> None:
    """Raises InputError unless every row read was written or rejected, once, in the shards planned."""
    written, rejected = outcome.rows_written, outcome.rejected.rows
    planned = sorted(plan.shard_keys())
    complete = sorted((shard.split, shard.number) for shard in outcome.files) == planned
    described = sum(split.examples for split in statistics_of(outcome, plan, schema).values())
    if outcome.rows_read != written + rejected or described != written or not complete:
        raise InputError(
            "the rows that came out of the run",
            received=f"{written:,} written, {described:,} in the statistics, {rejected:,} rejected, "
            f"{len(outcome.files)} shards",
            expected=f"{outcome.rows_read:,} rows in all, {len(planned)} shards",
            action="The runner lost or repeated rows; nothing was published. Use --runner=FnApiRunner.",
        )


def check_not_empty(outcome: Outcome, plan: Plan) -> None:
    """Raises InputError if there was no row at all, or none for a split that files or cut-offs name."""
    named = (*plan.pinned, *plan.cut)
    empty = [split for split in named if not sum(shard.rows for shard in shards_of(outcome, split))]
    if empty or not outcome.rows_read:
        raise InputError(
            f"the input of split '{empty[0]}'" if empty else "the input as a whole",
            received="0 rows",
            expected="at least one row that can be converted",
            action="Correct the cut-offs of the schema's split_by, or give --allow_empty."
            if outcome.rows_read and plan.cut
            else "Check how these files were written; if there are none today, give --allow_empty.",
        )

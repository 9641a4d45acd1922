"""How much of the data may be lost: damaged records are left out before a run starts, within a budget.

Not on the way: so the order of all others stays a pure function of seed and position, and the list, which a
run keeps, is all that another process needs to read the same stream.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from pipeline.data.damage import listed
from pipeline.data.errors import InputError
from pipeline.data.scan import DamagedRecord, damaged_records
from pipeline.data.selection import Selection

FLAG = "--max_corrupt_records"

Damage = tuple[DamagedRecord, ...]


def sound(
    selections: Mapping[str, Selection], *, budget: int, known: Sequence[DamagedRecord] | None = None
) -> tuple[dict[str, Selection], Damage]:
    """The selections without their damaged records, and these records.

    With a budget of 0 nothing is read ahead: the first damaged record that is met ends the run.

    Args:
      budget: most records that may be left out of all selections together.
      known: what this run left out from its start; None where it starts now.

    Raises:
      InputError: more is damaged than the budget allows, or than `known` says.
    """
    if len(known or ()) > budget:
        raise _exceeded(f"{budget}, in a run that goes on without {listed(known)}", len(known))
    if not budget:
        return dict(selections), ()
    found = {place: record for each in selections.values() for place, record in _found(each)}
    if known is None:
        known = tuple(found.values())
        if len(known) > budget:
            raise _exceeded(f"{budget} for {listed(known)}", len(known))
    new = [record for place, record in found.items() if place not in {one.place for one in known}]
    if new:
        raise _is_new(new)
    return {name: without(each, known) for name, each in selections.items()}, tuple(known)


def without(selection: Selection, damaged: Iterable[DamagedRecord]) -> Selection:
    """Leaves out what is damaged. What is left counts as checked."""
    shards, digest = selection.shards, selection.dataset.manifest.digest
    starts = dict(zip(shards.names, shards.record_starts.tolist(), strict=False))
    numbers = [
        starts[record.file] + record.ordinal
        for record in damaged
        if record.dataset == digest and record.file in starts
    ]
    left = selection.without(numbers)
    if not left.rows:
        raise InputError(
            f"dataset {selection.dataset.directory}, split '{selection.expression}'",
            received="damage in every record",
            expected="at least one sound record",
            action="Restore the files from a copy, or convert the raw data again.",
        )
    return dataclasses.replace(left, is_checked=True)


def to_json(damaged: Damage) -> dict:
    return {
        "rows": sum(record.rows for record in damaged),
        "records": [dataclasses.asdict(one) for one in damaged],
    }


def from_json(document: Mapping) -> Damage:
    return tuple(DamagedRecord(**record) for record in document["records"])


def _found(selection: Selection) -> Iterable[tuple[tuple, DamagedRecord]]:
    return ((record.place, record) for record in damaged_records(selection))


def _exceeded(received: str, needed: int) -> InputError:
    return InputError(
        FLAG,
        received=received,
        expected=f"at least {needed:,} to go on without them",
        action=f"Restore the files from a copy, convert the raw data again, or set {FLAG}={needed}.",
    )


def _is_new(new: Sequence[DamagedRecord]) -> InputError:
    return InputError(
        "--workdir",
        received=listed(new),
        expected="no damage but what the run left out from its start, on which the order depends",
        action="Restore the files from a copy, or start again in an empty --workdir.",
    )

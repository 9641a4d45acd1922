"""Leaves damaged records out before a run starts, as many as a budget allows.

None are left out later, so the order of all others stays a pure function of seed and position. The run keeps
the list of damaged records: it is all that another process needs to read the same stream.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.integrity.checksums import DamagedRecord
from pipeline.data.integrity.damage import listed
from pipeline.data.integrity.scan_memory import ScanMemory

_FLAG = "--max_corrupt_records"

_NO_MEMORY = ScanMemory(None)

Damage = tuple[DamagedRecord, ...]


def sound(
    selections: Mapping[str, Selection],
    *,
    budget: int,
    known: Sequence[DamagedRecord] | None = None,
    memory: ScanMemory = _NO_MEMORY,
) -> tuple[dict[str, Selection], Damage]:
    """The selections without their damaged records, and these records.

    With a budget of 0 nothing is read ahead: the first damaged record ends the run.

    Args:
      budget: most records that may be left out of all selections together.
      known: what the run left out from its start; None if it starts now.
      memory: of what was found before; files that it knows are not read again.

    Raises:
      InputError: more is damaged than the budget allows, or than `known` says.
    """
    if len(known or ()) > budget:
        raise _exceeded(f"{budget}, in a run that goes on without {listed(known)}", len(known))
    if not budget:
        return dict(selections), ()
    found = {record.key: record for each in selections.values() for record in memory.damaged(each)}
    memory.save()
    if known is None:
        known = tuple(found.values())
        if len(known) > budget:
            raise _exceeded(f"{budget} for {listed(known)}", len(known))
    expected = {record.key for record in known}
    new = [record for key, record in found.items() if key not in expected]
    if new:
        raise _is_new(new)
    return {name: without(each, known) for name, each in selections.items()}, tuple(known)


def without(selection: Selection, damaged: Iterable[DamagedRecord]) -> Selection:
    """The selection without the damaged records; what is left counts as checked."""
    left = selection.without(_numbers(selection, damaged))
    if not left.rows:
        raise InputError(
            f"dataset {selection.dataset}, split '{selection.expression}'",
            received="damage in every record",
            expected="at least one sound record",
            action="Restore the files from a copy, or convert the raw data again.",
        )
    return dataclasses.replace(left, is_checked=True)


def _numbers(selection: Selection, damaged: Iterable[DamagedRecord]) -> Iterator[int]:
    """Of damaged records, over all shards: of two members with the same bytes, both lose them."""
    by_file = collections.defaultdict(list)
    for record in damaged:
        by_file[record.dataset, record.file].append(record.ordinal)
    starts = selection.shards.record_starts.tolist() if by_file else []
    for name, start in zip(selection.shards.names, starts, strict=False):
        dataset, file = selection.dataset.owner(name)
        for ordinal in by_file.get((dataset.manifest.digest, file), ()):
            yield start + ordinal


def to_json(damaged: Damage) -> dict:
    """What a run keeps of its damage."""
    return {
        "rows": sum(record.rows for record in damaged),
        "records": [dataclasses.asdict(one) for one in damaged],
    }


def from_json(document: Mapping) -> Damage:
    """The inverse of `to_json`."""
    return tuple(DamagedRecord(**record) for record in document["records"])


def _exceeded(received: str, needed: int) -> InputError:
    return InputError(
        _FLAG,
        received=received,
        expected=f"at least {needed:,} to go on without them",
        action=f"Restore the files from a copy, convert the raw data again, or set {_FLAG}={needed}.",
    )


def _is_new(new: Sequence[DamagedRecord]) -> InputError:
    return InputError(
        "--workdir",
        received=listed(new),
        expected="no damage but what the run left out from its start, on which the order depends",
        action="Restore the files from a copy, or start again in an empty --workdir.",
    )

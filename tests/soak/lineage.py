"""Which examples the weights of a run were trained on, from what each of its processes recorded."""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

Steps = dict[int, tuple[str, ...]]  # ids of the examples of a step, by the steps done before it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """What a run was trained on, beside what it should have been."""

    lost: int
    repeated: int
    elsewhere: int  # examples that were trained on, once, at another step


def read(ledgers: Sequence[pathlib.Path]) -> Steps:
    """What the processes that trained together recorded, but for a step that not all finished recording."""
    parts: dict[int, dict[int, list[str]]] = collections.defaultdict(dict)
    for path in ledgers:
        for line in path.read_text().split("\n")[:-1]:  # a kill may cut the last one
            step, replica, *ids = line.split()
            if int(replica) in parts[int(step)]:
                raise ValueError(f"{path}: step {step} was applied twice")
            parts[int(step)][int(replica)] = ids
    replicas = max((len(part) for part in parts.values()), default=0)
    return {
        step: tuple(each for replica in sorted(part) for each in part[replica])
        for step, part in sorted(parts.items())
        if len(part) == replicas
    }


def of_weights(generations: Sequence[Steps]) -> list[tuple[int, tuple[str, ...]]]:
    """(step, ids) of what is in the weights at the end, in order.

    Of a process counts what it did before the step at which a later one began: the rest was lost with it.
    """
    lasting: list[tuple[int, tuple[str, ...]]] = []
    for steps in generations:
        if steps:
            begin = min(steps)
            lasting = [one for one in lasting if one[0] < begin]
            lasting += steps.items()
    return lasting


def difference(
    trained: Sequence[tuple[int, tuple[str, ...]]], undisturbed: Mapping[int, tuple[str, ...]]
) -> Difference:
    """Counts examples."""
    found: collections.Counter = collections.Counter()
    for step, ids in trained:
        found.update((step, each) for each in ids)
    wanted = collections.Counter((step, each) for step, ids in undisturbed.items() for each in ids)
    had, should = _by_id(found), _by_id(wanted)
    lost, repeated = (should - had).total(), (had - should).total()
    return Difference(lost=lost, repeated=repeated, elsewhere=(found - wanted).total() - repeated)


def _by_id(counts: collections.Counter) -> collections.Counter:
    total: collections.Counter = collections.Counter()
    for (_, each), count in counts.items():
        total[each] += count
    return total

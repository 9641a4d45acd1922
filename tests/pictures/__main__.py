"""Pictures of every subtype through the conversion, training, evaluation and serving, beside Pillow.

  python -m tests.pictures [--count=2000] [--damaged=1500] [--seed=0]

Every picture is refused by the conversion, or decoded to within 2 levels of Pillow wherever a model gets it;
every damaged one is refused, or decoded. Prints a table, and each failure. About 4 minutes on one core.
"""

import collections
import sys
from collections.abc import Sequence

from absl import app, flags

from tests.pictures import outcomes
from tests.pictures.outcomes import Outcome

_COUNT = flags.DEFINE_integer("count", 2000, "Pictures to compare with Pillow.", 0)
_DAMAGED = flags.DEFINE_integer("damaged", 1500, "Damaged pictures to decode.", 0)
_SEED = flags.DEFINE_integer("seed", 0, "Of the pictures.")


def report(title: str, found: Sequence[Outcome]) -> int:
    """Prints how many went which way, by format; returns how many failed."""
    columns = ("taken", "refused", "failed")
    by_format = collections.defaultdict(collections.Counter)
    for one in found:
        kind = one.picture.name.split()[0].rstrip(",")
        by_format[kind][columns[2 if one.failures else 1 if one.refused else 0]] += 1
    print(f"{title:<12}" + "".join(f"{column:>9}" for column in columns))
    for kind, counts in sorted(by_format.items()):
        print(f"{kind:<12}" + "".join(f"{counts[column]:>9,}" for column in columns))
    failed = [one for one in found if one.failures]
    for one in failed:
        print(f"  {one.picture.name}, {one.picture.channels} channels: {'; '.join(one.failures)}")
    return len(failed)


def main(argv: Sequence[str]) -> None:
    del argv
    seed = _SEED.value
    failed = report("pictures", outcomes.compared(list(outcomes.pictures(_COUNT.value, seed=seed))))
    failed += report("damaged", outcomes.decoded(list(outcomes.damaged(_DAMAGED.value, seed=seed))))
    sys.exit(f"{failed:,} failed" if failed else 0)


if __name__ == "__main__":
    app.run(main)

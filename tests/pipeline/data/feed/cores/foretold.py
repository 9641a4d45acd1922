"""What a certificate of one number of cores foretells of another, beside what was found there."""

import dataclasses
import statistics
from collections.abc import Sequence

from pipeline.feed.certificate import MARGIN, Certificate

NEAR = 0.2
AS_SLOW = 1.2  # times the rate of the slowest stage: which of the two is the limit is a toss
# Of what was measured where it was certified, what training is made to need.
NEEDS = (0.4, 0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, 2.2, 3.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Foretold:
    """Two certificates of a pipeline, measured one right after the other."""

    known: Certificate
    there: Certificate  # on the other number of cores

    @property
    def predicted(self) -> float:
        """Examples a second on the cores of `there`, by `known`."""
        return self.known.scaling.rate(self.there.host.cores)

    @property
    def ratio(self) -> float:
        """Predicted over found: of what the cores there may give, over what is nearest."""
        return self._over_found(self.predicted)

    @property
    def in_proportion(self) -> float:
        """The same of a guess that knows no stages: twice the cores, twice the rate."""
        cores = self.there.host.cores / self.known.host.cores
        return self._over_found(most_of(self.known) * cores)

    def _over_found(self, predicted: float) -> float:
        found = max(predicted, self.there.together.examples_per_s)
        return predicted / min(found, most_of(self.there))

    @property
    def limit(self) -> str:
        return self.known.scaling.limiting(self.there.host.cores).name

    @property
    def is_limit_right(self) -> bool:
        scaling, cores = self.there.scaling, self.there.host.cores
        slowest = scaling.rate_of(self.there.limiting, cores)
        stage = next((line for line in self.there.stages if line.name == self.limit), None)
        return stage is not None and scaling.rate_of(stage, cores) <= AS_SLOW * slowest

    @property
    def broken(self) -> frozenset[str]:
        """Promises of `known` that the cores of `there` do not keep, whatever others took of them.

        That so many cores feed a step is promised with a margin, which is there to be used up. That none does
        is wrong where they feed it with that margin.
        """
        found = set()
        for times in NEEDS:
            needed = times * most_of(self.known)
            cores = self.known.scaling.cores_for(MARGIN * needed)
            if cores is not None and cores <= self.there.host.cores and most_of(self.there) < needed:
                found.add(f"{cores} give {times:g}x")
            least = self.there.together.examples_per_s
            if self.known.scaling.stuck(MARGIN * needed) and least > MARGIN * needed:
                found.add(f"none gives {times:g}x")
        return frozenset(found)


def most_of(certificate: Certificate) -> float:
    """Examples a second, where other processes took cores with what they took given back.

    That is more than these cores would give where stages wait for each other, and what was measured is less.
    """
    together = certificate.together
    is_shared = certificate.host.is_shared
    return together.attainable(certificate.host.cores) if is_shared else together.examples_per_s


def row(name: str, rounds: Sequence[Foretold], *, promises_alone: bool) -> dict[str, object]:
    """A line of the table: medians, and what is so in most rounds.

    A neighbour of the machine may slow it down for minutes, which no counter here tells. It does so in a
    round, and in another not.

    Args:
      promises_alone: nothing else has to hold.
    """
    ratio = statistics.median(one.ratio for one in rounds)
    is_limit_right = sum(one.is_limit_right for one in rounds) > len(rounds) / 2
    times_broken = sum(bool(one.broken) for one in rounds)
    broken = "; ".join(sorted(set().union(*(one.broken for one in rounds))))
    is_foretold = abs(ratio - 1) <= NEAR and is_limit_right
    is_right = times_broken <= len(rounds) / 2 and (is_foretold or promises_alone)
    first = rounds[0]
    return {
        "pipeline": name,
        "certified on": f"{first.known.host.cores:g}",
        "measured on": f"{first.there.host.cores:g}",
        "predicted": f"{statistics.median(one.predicted for one in rounds):,.0f}/s",
        "found": f"{statistics.median(one.there.together.examples_per_s for one in rounds):,.0f}/s",
        "ratio": f"{ratio:.2f}",
        "of rounds": " ".join(f"{one.ratio:.2f}" for one in rounds),
        "in proportion": f"{statistics.median(one.in_proportion for one in rounds):.2f}",
        "beside": f"{max(one.there.host.others_cores for one in rounds):.1f} cores",
        "limit": " ".join(sorted({one.limit for one in rounds})),
        "there": " ".join(sorted({one.there.limiting.name for one in rounds})),
        "broken": f"in {times_broken} of {len(rounds)}: {broken}" if broken else "none",
        "": "right" if is_right else "WRONG",
    }

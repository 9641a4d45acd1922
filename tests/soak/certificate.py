"""Does the feed certificate find what makes a pipeline slow, and foretell what other cores give?

  python -m tests.soak.certificate --cases=slowed/*
  python -m tests.soak.certificate --cases=cores/* --rounds=6

slowed: pipelines that are slowed in one place: the certificate names it, and calls the undisturbed one fed.
cores:  pipelines certified on 1 core and on 2, one right after the other. Either has to predict the rate on
        the other number within 20%, name the stage that is the limit there, and promise no number of cores
        that does not keep it: by the median of the rounds. On a busy machine the figures are its neighbours'.
odd:    pipelines that scale badly, whose promises alone have to be kept.
"""

import dataclasses
import functools
import os
import pathlib
import pickle
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence

if __name__ == "__main__" and len(sys.argv) == 6:  # TensorFlow asks for cores when it is imported
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[2])])

from absl import flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.data.input.stages import Recipe
from pipeline.feed.certificate import MARGIN, Certificate, Demand, copy_to, issue
from pipeline.feed.measure import Consume
from pipeline.feed.scaling import HERE
from tests.soak import harness
from tests.soak.harness import Row, Soak
from tests.unit.feed.pipelines import BATCH, undisturbed
from tests.unit.feed.slowed import TO_CPU, slowed

EIGHT = (
    *("table, rows", "table, blocks", "table, mapped", "tokens", "mixture"),
    *("images, uint8", "images, float32", "images, augmented"),
)
ODD = (
    *("photographs", "mixed photographs", "one by one", "tiny batches", "rows, 4 hosts", "mapped, 4 hosts"),
    *("one window", "Python function", "Python generator", "one-thread map", "far storage"),
)
SLOW_DISK = "slow disk"

NEAR = 0.2
AS_SLOW = 1.2  # times the rate of the slowest stage: which of the two is the limit is a toss
# What training is made to need, beside what was measured where it was certified.
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


_SECONDS = 0.4  # a stage
SLOWER = 2.0  # a step takes so many times what the undisturbed pipeline needs for its batch


def certify(recipe: Recipe, step_ms: float | None = None, copy: Consume = TO_CPU) -> Certificate:
    demand = Demand(global_batch=BATCH, slice=HERE, step_ms=step_ms)
    return issue(recipe, demand, copy=copy, seconds=_SECONDS)


def shortest_step_ms(recipe: Recipe) -> float:
    """The faster of two: on a busy host, one may come out several times too slow."""
    return min(certify(recipe).shortest_step_ms for _ in range(2))


def slowed_faults(soak: Soak, *, name: str) -> Iterator[str]:
    """Whether the certificate names the place; a step takes twice what the undisturbed pipeline needs."""
    recipes = undisturbed(soak.folder / "undisturbed")
    if name in recipes:
        certificate, limit, verdict = (
            certify(recipes[name], SLOWER * shortest_step_ms(recipes[name])),
            "",
            "FED",
        )
    else:
        one = slowed(soak.folder)[name]()
        step_ms = SLOWER * shortest_step_ms(recipes[one.like])
        certificate, limit, verdict = certify(one.recipe, step_ms, one.copy), one.limit, "STARVED"
    found = certificate.limiting.name
    print(f"{name}: {found}, headroom {certificate.headroom:.3f}, {certificate.verdict}", flush=True)
    if certificate.verdict != verdict or (limit and found != limit):
        yield f"{certificate.verdict} by {found}, not {verdict} by {limit or 'anything'}"


def cores_faults(soak: Soak, *, name: str) -> Iterator[str]:
    """What a certificate foretells wrongly of the other number of cores, by the median of the rounds."""
    found = {
        (cores, number): _measured(soak, cores, name, number)
        for number in range(1 if name == SLOW_DISK else flags.FLAGS.rounds)
        for cores in _CORES
    }
    if name == SLOW_DISK:
        yield from _slow_disk_faults([found[cores, 0] for cores in _CORES])
        return
    for known, there in (_CORES, _CORES[::-1]):
        rounds = [
            Foretold(known=found[known, number], there=found[there, number])
            for number in range(flags.FLAGS.rounds)
        ]
        ratio = statistics.median(one.ratio for one in rounds)
        half = len(rounds) / 2
        is_foretold = abs(ratio - 1) <= NEAR and sum(one.is_limit_right for one in rounds) > half
        broken = sorted(set().union(*(one.broken for one in rounds)))
        ratios = " ".join(f"{one.ratio:.2f}" for one in rounds)
        beside = statistics.median(one.in_proportion for one in rounds)
        line = f"{known} on {there}: {ratios} of what is found (in proportion {beside:.2f}), broken: {broken}"
        print(f"{name}, {line}", flush=True)
        if sum(bool(one.broken) for one in rounds) > half or (name in EIGHT and not is_foretold):
            yield line


def _slow_disk_faults(certificates: Sequence[Certificate | None]) -> Iterator[str]:
    """It is starved because of the disk, while the page cache would feed."""
    for certificate in certificates:
        if certificate is None:
            print(f"{SLOW_DISK}: not checked, as it cannot be throttled here")
            return
        warm, cold = certificate.together, certificate.cold
        is_slower = cold.examples_per_s < warm.examples_per_s / 2
        if not is_slower or certificate.limiting is not cold or certificate.is_fed:
            rates = f"{warm.examples_per_s:,.0f}/s, {cold.examples_per_s:,.0f}/s from disk"
            yield f"{rates}: {certificate.verdict}"


def _measured(soak: Soak, cores: int, name: str, number: int) -> Certificate | None:
    """Measured in a process of its own, which has so many cores from its start."""
    given = (str(soak.folder), str(cores), str(number), name, str(flags.FLAGS.seconds))
    subprocess.run([sys.executable, "-m", "tests.soak.certificate", *given], check=True)
    return pickle.loads(_file_of(soak.folder, cores, number).read_bytes())


def _file_of(folder: pathlib.Path, cores: int, number: int) -> pathlib.Path:
    return folder / f"on {cores}, {number}.pickle"


def measure(folder: pathlib.Path, cores: int, number: int, name: str, seconds: float) -> None:
    """Writes a certificate; None of a disk that cannot be throttled here."""
    from tests.soak import certified_pipelines as pipelines

    if name == SLOW_DISK:
        try:
            found = pipelines.of_slow_disk(folder / f"disk-{cores}", seconds=seconds)
        except OSError as error:
            print(f"The disk cannot be throttled here: {error}", file=sys.stderr)
            found = None
    else:
        known = pipelines.eight(folder / "data") | pipelines.odd(
            folder / "data", folder / f"odd-{cores}-{number}"
        )
        recipe = known[name]()
        demand = Demand(global_batch=recipe.batch, slice=HERE)
        found = issue(recipe, demand, copy=copy_to("CPU:0"), seconds=seconds)
    _file_of(folder, cores, number).write_bytes(pickle.dumps(found))


_CORES = (1, 2)
ROWS = (
    *(
        Row(
            name=f"slowed/{name.replace(' ', '_')}",
            sentence=f"Certifies a pipeline with {name}: the right stage, and the right verdict.",
            faults=functools.partial(slowed_faults, name=name),
        )
        for name in ("table", "images", "raw", *slowed(pathlib.Path("none")))
    ),
    *(
        Row(
            name=f"cores/{name.replace(', ', '_').replace(' ', '_')}",
            sentence=f"Certifies {name} on 1 core and on 2: each foretells the other.",
            faults=functools.partial(cores_faults, name=name),
        )
        for name in (*EIGHT, SLOW_DISK)
    ),
    *(
        Row(
            name=f"odd/{name.replace(', ', '_').replace(' ', '_')}",
            sentence=f"Certifies {name}, which scales badly, on 1 core and on 2: no promise is broken.",
            faults=functools.partial(cores_faults, name=name),
        )
        for name in ODD
    ),
)


if __name__ == "__main__":
    flags.DEFINE_integer("rounds", 3, "How often each pipeline is certified on each number of cores.", 1)
    flags.DEFINE_float("seconds", 2.0, "How long each stage is measured.")
    if len(sys.argv) == 6:
        measure(
            pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
        )
    else:
        harness.run(lambda: ROWS)

"""Does the feed certificate find what makes a pipeline slow? Slows 15 of them in one place, and asks it.

  make feed-check

Exits with 1 where it names another stage, or calls a slowed pipeline fed or an undisturbed one starved.
--only=CASE, which repeats, tries some of them.
"""

import argparse
import functools
import pathlib
import sys
import tempfile

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.data.input.stages import Recipe
from pipeline.feed.certificate import Certificate, Demand, issue
from pipeline.feed.measure import Consume
from pipeline.feed.scaling import HERE
from tests.pipeline.data.feed.pipelines import BATCH, undisturbed
from tests.pipeline.data.feed.slowed import TO_CPU, slowed
from tests.shared.table import show

SECONDS = 0.4  # a stage
SLOWER = 2.0  # a step takes so many times what the undisturbed pipeline needs for its batch


def certify(recipe: Recipe, step_ms: float | None = None, copy: Consume = TO_CPU) -> Certificate:
    demand = Demand(global_batch=BATCH, slice=HERE, step_ms=step_ms)
    return issue(recipe, demand, copy=copy, seconds=SECONDS)


def row(name: str, certificate: Certificate, *, limit: str, verdict: str) -> dict[str, object]:
    is_right = certificate.verdict == verdict and (not limit or certificate.limiting.name == limit)
    rates = sorted(line.examples_per_s for line in certificate.stages)
    return {
        "pipeline": name,
        "slowed": limit or "nothing",
        "named": certificate.limiting.name,
        "lacks": certificate.bound(certificate.limiting),
        "next stage": f"{rates[1] / rates[0]:,.1f}x faster",
        "headroom": f"{certificate.headroom:.3f}x",
        "verdict": certificate.verdict,
        "": "right" if is_right else "WRONG",
    }


def shortest_step_ms(recipe: Recipe) -> float:
    """The faster of two: on a busy host, one may come out several times too slow."""
    return min(certify(recipe).shortest_step_ms for _ in range(2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", metavar="CASE", default=[])
    only = parser.parse_args().only
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipes, cases = undisturbed(folder / "undisturbed"), slowed(folder)
        if unknown := set(only) - {*recipes, *cases}:
            parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join([*recipes, *cases])}")

        @functools.cache
        def step_ms(kind: str) -> float:
            return SLOWER * shortest_step_ms(recipes[kind])

        for kind in [kind for kind in recipes if not only or kind in only]:
            rows.append(row(kind, certify(recipes[kind], step_ms(kind)), limit="", verdict="FED"))
        for case in [case for case in cases if not only or case in only]:
            print(case, file=sys.stderr, flush=True)
            one = cases[case]()
            certificate = certify(one.recipe, step_ms(one.like), one.copy)
            rows.append(row(case, certificate, limit=one.limit, verdict="STARVED"))
    show(rows)
    return 0 if all(each[""] == "right" for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

r"""What reading and converting cost in this tree, beside an earlier commit; interleaved, in CPU time.

  python -m benchmarks.against --commit=56ca674 [--rounds=5] [--seconds=5] [--only=input,convert]

In each round every measurement is made of both trees, each time the other one first, by that tree's own
`benchmarks.input` and `benchmarks.convert`, on the same data. Figures are medians. A measurement whose ratio
is not within 5% is made again, in as many rounds; the second figure stands beside the first, and counts.
The exit code is 1 where one stays outside.

Hardware: Linux, any; nothing else should run. Duration: on 2 cores 14 minutes a round. Needs 2 GB in --data,
which are written once and used again.
"""

import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

from benchmarks.checkout import ROOT, CommandError, Tree, checked_out
from benchmarks.interleaving import MEASUREMENTS, Measure, Measurement, interleaved, table
from pipeline.base.errors import answers_bad_input

_COMMIT = flags.DEFINE_string("commit", None, "The commit to compare with.", required=True)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "How often each measurement is made of each tree.", 1)
_SECONDS = flags.DEFINE_float("seconds", 5.0, "How long reading is measured, after half of it.", 0.1)
_DATA = flags.DEFINE_string("data", "build/benchmark", "Directory for the data that both trees read.")
_ONLY = flags.DEFINE_multi_enum("only", ["input", "convert"], ["input", "convert"], "What to measure.")


def _measured_by(data: pathlib.Path, *, seconds: float) -> Measure:
    """Makes a measurement by the tree's own benchmark, in one round."""

    def measure(tree: Tree, one: Measurement) -> float:
        flags_of = {
            "input": (f"--data={data / 'input'}", f"--seconds={seconds}", "--epochs=false"),
            "convert": (f"--scratch={data / 'convert'}",),
        }
        field = {"input": "cpu_us_per_example", "convert": "cpu_us_per_row"}[one.benchmark]
        with tempfile.TemporaryDirectory() as folder:
            found = pathlib.Path(folder) / "found.json"
            tree.run(
                *(f"benchmarks.{one.benchmark}", *flags_of[one.benchmark], f"--workloads={one.workload}"),
                *(f"--names={one.name}", "--rounds=1", f"--json={found}"),
                directory=tree.root,
            )
            [figures] = json.loads(found.read_text())
        return figures[field]

    return measure


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    data = pathlib.Path(_DATA.value).absolute()
    data.mkdir(parents=True, exist_ok=True)
    chosen = [one for one in MEASUREMENTS if one.benchmark in _ONLY.value]
    python = pathlib.Path(sys.executable)
    with checked_out(_COMMIT.value) as root:
        before = Tree(name="before", root=root, python=python)
        after = Tree(name="after", root=ROOT, python=python)
        measure = _measured_by(data, seconds=_SECONDS.value)
        try:
            # Compiles both trees' Python, which a conversion's figure would hold; reading's is of later.
            converting = [one for one in chosen if one.benchmark == "convert"]
            interleaved(converting[:1], before, after, rounds=1, measure=measure)
            first = interleaved(chosen, before, after, rounds=_ROUNDS.value, measure=measure)
            outside = [one for one, costs in first.items() if not costs.within]
            again = interleaved(outside, before, after, rounds=_ROUNDS.value, measure=measure)
        except CommandError as error:
            sys.exit(f"error: {error}")
    print(table(first, again))
    return 0 if all(costs.within for costs in (first | again).values()) else 1


if __name__ == "__main__":
    app.run(main)

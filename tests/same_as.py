r"""Does this tree compute what an earlier commit computed? Minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make same-as COMMIT=56ca674
  python -m tests.same_as --commit=56ca674 --data=DIR [--only=digits,adult,order]
  python -m tests.same_as --commit=HEAD --python=/path/to/venv/bin/python --data=DIR

Both trees convert digits, MNIST, Adult and Chicago taxi, whole, and train some steps on each; both read 1,400
examples one after the other in each way that there is. A table compares the SHA-256 of every file, which
example stood at which position, and the version numbers of order and manifest. The exit code is 1 where
anything differs. --python runs the commands of this tree with another interpreter: are the bytes those of
Python 3.11?

Duration: 10 minutes on 2 cores. Everything lands below build/same_as/.
"""

import concurrent.futures
import dataclasses
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags

from benchmarks.checkout import ROOT, CommandError, Tree, checked_out
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.base.errors import answers_bad_input
from tests.shared.real_data import Case
from tests.shared.table import show
from tests.two_trees import fingerprints, made
from tests.two_trees.fingerprints import Compared

_COMMIT = flags.DEFINE_string("commit", None, "The commit to compare with.", required=True)
_DATA = flags.DEFINE_string("data", None, "Folder with mnist_png, adult and chicago_taxi.", required=True)
_PYTHON = flags.DEFINE_string("python", sys.executable, "Interpreter for this tree; the other one has ours.")
_OUTPUT = flags.DEFINE_string("output", "build/same_as", "Folder to write to.")
_ONLY = flags.DEFINE_list("only", [*made.NAMES], "What to compare.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sides:
    """Both trees, and the folder in which each has one of its own."""

    before: Tree
    after: Tree
    output: pathlib.Path

    def both(self, make: Callable[[Tree, pathlib.Path], pathlib.Path]) -> list[pathlib.Path]:
        """Runs `make(tree, folder)` for both at once; returns what it wrote, [before, after]."""
        trees = (self.before, self.after)
        with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
            return list(pool.map(lambda tree: make(tree, self.output / tree.name), trees))

    def directories(self, made_by_both: Sequence[pathlib.Path]) -> list[Compared]:
        """A line for each version number and each file of a dataset or a run."""
        name = str(made_by_both[1].relative_to(self.output / self.after.name))
        stated = (fingerprints.versions(directory, name=name) for directory in made_by_both)
        files = (fingerprints.of_directory(directory, name=name) for directory in made_by_both)
        return [*fingerprints.compare(*stated), *fingerprints.compare(*files)]


def compare_case(sides: Sides, case: Case) -> Iterator[Compared]:
    """The dataset and the run."""
    for make in (made.convert, made.train):
        yield from sides.directories(sides.both(lambda tree, folder, make=make: make(tree, case, folder)))


def compare_orders(sides: Sides) -> Iterator[Compared]:
    """The datasets of both layouts, and the order of each way to read them."""
    made.write_order_data(sides.output / "raw")
    for layout in ("rows", "blocks"):
        yield from sides.directories(
            sides.both(lambda tree, folder, layout=layout: made.convert_order(tree, layout, folder))
        )
    for order in made.ORDERS:
        runs = sides.both(lambda tree, folder, order=order: made.train_order(tree, order, folder))
        before, after = map(fingerprints.ledger, runs)
        examples = f"{len(before):,} positions, {len(set(before)):,} examples"
        yield Compared(
            what=f"order of {order.name}: {fingerprints.first_difference(before, after) or examples}",
            before=fingerprints.of_ledger(before),
            after=fingerprints.of_ledger(after),
        )


def report(lines: Sequence[Compared]) -> int:
    """Prints the table, what is not compared and why, and the verdict; returns the exit code."""
    show(
        [
            {
                "what": line.what,
                "before": line.before[:20] or "-",
                "after": line.after[:20] or "-",
                "same": "yes" if line.same else "NO",
            }
            for line in lines
        ]
    )
    print("\nNot compared:")
    for pattern, reason in fingerprints.NOT_COMPARED.items():
        print(f"  {pattern}: {reason}")
    unlike = [line.what for line in lines if not line.same]
    if unlike:
        print(f"\n{len(unlike)} of {len(lines)} differ:", *unlike, sep="\n  ")
        return 1
    print(f"\nAll {len(lines)} are the same.")
    return 0


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    made.require_known(_ONLY.value)
    data, output = pathlib.Path(_DATA.value).resolve(), pathlib.Path(_OUTPUT.value).resolve()
    shutil.rmtree(output, ignore_errors=True)
    raw = output / "raw"
    for folder in (raw, output / "before", output / "after"):
        folder.mkdir(parents=True)
    lines: list[Compared] = []
    with checked_out(_COMMIT.value) as root:
        sides = Sides(
            before=Tree(name="before", root=root, python=pathlib.Path(sys.executable)),
            after=Tree(name="after", root=ROOT, python=pathlib.Path(_PYTHON.value).absolute()),
            output=output,
        )
        try:
            for name in _ONLY.value:
                started = len(lines)
                if name == "order":
                    lines += compare_orders(sides)
                else:
                    lines += compare_case(sides, made.case_of(name, data, raw))
                unlike = sum(not line.same for line in lines[started:])
                print(
                    f"{name}: {len(lines) - started} compared, {unlike} differ", file=sys.stderr, flush=True
                )
        except CommandError as error:
            sys.exit(f"error: {error}")
    return report(lines)


if __name__ == "__main__":
    app.run(main)

"""Flips single bits of every file of a dataset, an export and a run; none may change a result in silence.

  python -m tests.flips [--flips=600] [--seed=0] [--list]

Each flip must be named by the command that reads the file, or be without effect: what the command makes of
the flipped copy is the same to the last bit. Prints a table; the exit code is 1 where a flip was neither.
"""

import io
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout

from absl import app, flags, logging
from tqdm import tqdm

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

from tests.flips import subjects
from tests.flips.flip import ALLOWED, Verdict, flips, table

_FLIPS = flags.DEFINE_integer("flips", 600, "How many flips, over all files.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of bytes and bits.")
_LIST = flags.DEFINE_bool("list", False, "Whether to list the flips without effect, too.")


def main(argv: Sequence[str]) -> int:
    del argv
    logging.set_verbosity(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(io.StringIO()):
            made = subjects.make(pathlib.Path(folder))
        files = sum(len(subject.files) for subject in made)
        scratch = pathlib.Path(folder) / "scratch"
        found = [
            flip
            for subject in made
            for flip in tqdm(
                flips(
                    subject,
                    scratch / subject.name,
                    count=round(_FLIPS.value * len(subject.files) / files),
                    seed=_SEED.value,
                ),
                desc=subject.name,
                disable=None,
            )
        ]
    print(table(found))
    for flip in found:
        if flip.verdict not in ALLOWED or (_LIST.value and flip.verdict is Verdict.NO_EFFECT):
            print(
                f"{flip.subject}/{flip.file} byte {flip.byte:,} bit {flip.bit}: {flip.verdict.value} "
                f"({flip.command or 'no command reads it'}) {flip.said[:300]!r}"
            )
    return int(any(flip.verdict not in ALLOWED for flip in found))


if __name__ == "__main__":
    sys.exit(app.run(main))

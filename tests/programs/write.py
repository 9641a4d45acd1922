"""Writes the goldens of the shipped configs' training steps anew: a file of numbers each.

  python -m tests.programs.write
  python -m tests.programs.write tabular clicks

Do so when a step is meant to change, and look at the difference before you commit it.
"""

import argparse
import pathlib
import tempfile

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
from tests.programs.shipped import CASES, GOLDENS, summary_of, text_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="configs; all, if none is named")
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().names or CASES:
            text = text_of(summary_of(name, pathlib.Path(folder)))
            (GOLDENS / f"{name}.txt").write_text(text, encoding="utf-8")
            print(GOLDENS / f"{name}.txt", flush=True)


if __name__ == "__main__":
    main()

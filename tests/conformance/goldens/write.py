r"""Writes goldens: a dataset of each layout, a run with a checkpoint, an export, and what they hold.

  python -m tests.conformance.goldens.write --output=tests/conformance/goldens/v1

Do so when a format changes: see README.md.
"""

import json
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence

from absl import app, flags

from benchmarks.checkout import ROOT, Tree
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from tests.conformance.goldens import raw, reading
from tests.conformance.goldens.kept_run import EXPORT, LONGER, STEPS, train_flags

_OUTPUT = flags.DEFINE_string("output", None, "Folder to write to; must not exist.", required=True)

SPLITS = {"rows": "train=0.85,test=0.15", "blocks": "train=1"}
# Pictures and events are for people; nothing reads them back.
_NOT_KEPT = ("report.html", "summaries")


def write(output: pathlib.Path) -> None:
    """Raises CommandError where a command fails."""
    tree = Tree(name="this", root=ROOT, python=pathlib.Path(sys.executable))
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder)
        longer, export = data / "longer", data / "export"
        raw.write(data)
        for layout, splits in SPLITS.items():
            tree.run(
                *("beam_jobs.convert", "--input=data.csv", f"--schema={layout}.json", f"--splits={splits}"),
                *(f"--layout={layout}", f"--output={output / layout}", "--max_rejected_fraction=0.05"),
                directory=data,
            )
        tree.run("pipeline.train", *train_flags(output / "rows", output / "run", steps=STEPS), directory=data)
        for name in _NOT_KEPT:
            path = output / "run" / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        tree.run("pipeline.export", f"--workdir={output / 'run'}", f"--output={export}", directory=data)
        predictions = reading.predictions(export)
        with tarfile.open(output / EXPORT, "w:xz") as archive:
            archive.add(export, arcname=".")
        shutil.copytree(output / "run", longer)
        tree.run("pipeline.train", *train_flags(output / "rows", longer, steps=LONGER), directory=data)
        ledger, losses = reading.history(longer)
    expected = {
        "examples": {layout: reading.examples(output / layout) for layout in SPLITS},
        "ledger": ledger,
        "losses": losses,
        "predictions": predictions,
    }
    (output / "expected.json").write_text(json.dumps(expected, ensure_ascii=False) + "\n")


def link_copies(run: pathlib.Path, dataset: pathlib.Path) -> None:
    """A run holds copies of files of its dataset; each is kept once, and linked to."""
    for path in sorted(run.iterdir()):
        original = dataset / path.name
        if original.is_file() and original.read_bytes() == path.read_bytes():
            path.unlink()
            path.symlink_to(os.path.relpath(original, run))


def main(argv: Sequence[str]) -> None:
    del argv
    output = pathlib.Path(_OUTPUT.value).absolute()
    write(output)
    link_copies(output / "run", output / "rows")
    files = [path for path in output.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.lstat().st_size for path in files):,} bytes in {output}")


if __name__ == "__main__":
    app.run(main)

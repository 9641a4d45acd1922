"""The run that goldens keep: how it is trained, and where its export is."""

import pathlib

from benchmarks.checkout import ROOT

CONFIG = ROOT / "tests" / "conformance" / "goldens" / "config.py"
STEPS, LONGER = 30, 60  # of the run that is kept, and of what it was made longer to; an epoch has 41
EXPORT = "export.tar.xz"  # packed: the graph of both signatures takes 1 MB, and 30 KB so


def train_flags(dataset: pathlib.Path, workdir: pathlib.Path, *, steps: int) -> tuple[str, ...]:
    """The flags of pipeline.train, the same on any machine."""
    return (
        *(f"--config={CONFIG}", f"--dataset={dataset}", f"--workdir={workdir}"),
        *("--strategy=one_device", "--precision=float32", f"--config.train.steps={steps}"),
    )

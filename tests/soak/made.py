"""What the soak trains on: Adult, and a part of MNIST, from PENSTOCK_DATA; or a table made up here."""

import pathlib
from collections.abc import Sequence

from tests.beam_jobs.conftest import ROOT
from tests.pipeline.training.small_run import write_small_dataset
from tests.shared import forked, real_data
from tests.soak.runs import Case

SETUPS = {
    "one_device": (("--strategy=one_device",), 1),
    "two_devices": (("--strategy=mirrored", "--logical_devices=2"), 1),
    "two_workers": (("--strategy=multi_worker",), 2),
}
_MINUTES = 900.0


def real_cases(folder: pathlib.Path, data: pathlib.Path) -> list[Case]:
    """Each model in each setup; the datasets are made in `folder` where they are not there."""
    adult, mnist = folder / "adult" / "1.0.0", folder / "mnist" / "1.0.0"
    known = {case.name: case for case in real_data.cases(data, folder / "mnist_png")}
    if not adult.exists():
        _convert(
            _numbered(data, folder), known["adult"].label, adult, "--splits=train=0.8,validation=0.1,test=0.1"
        )
    if not mnist.exists():
        real_data.unpack_mnist(data, folder)
        _convert(known["mnist"].source, known["mnist"].label, mnist)
    return [
        *_cases("adult", "adult_config", adult, steps=153, epoch=26_048 / 512),
        *_cases("mnist", "mnist_config", mnist, steps=106, epoch=4_500 / 64),
    ]


def made_up_cases(folder: pathlib.Path) -> list[Case]:
    """A run of seconds, for the tests."""
    dataset = folder / "table" / "1.0.0"
    if not dataset.exists():
        _done(forked.call(lambda: write_small_dataset(dataset), folder / "log", timeout=_MINUTES))
    return _cases("table", "table_config", dataset, steps=25, epoch=12.5)


def _cases(name: str, config: str, dataset: pathlib.Path, *, steps: int, epoch: float) -> list[Case]:
    flags = (
        f"--config={ROOT / 'tests' / 'soak' / config}.py",
        *(f"--dataset={dataset}", "--precision=float32", "--deterministic"),
    )
    return [
        Case(name=f"{name}_{setup}", arguments=(*flags, *more), workers=workers, steps=steps, epoch=epoch)
        for setup, (more, workers) in SETUPS.items()
    ]


def _numbered(data: pathlib.Path, folder: pathlib.Path) -> Sequence[str]:
    """Adult with a number for each row, so that no two examples are the same; the flags that read it."""
    path = folder / "adult.csv"
    lines = (data / "adult" / "adult-train.csv").read_text().splitlines()
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"{number},{line}" for number, line in enumerate(lines) if line.strip()) + "\n")
    return "--format=csv", f"--column_names=number,{real_data.ADULT_COLUMNS}", f"--input={path}"


def _convert(source: Sequence[str], label: str, dataset: pathlib.Path, *more: str) -> None:
    schema = dataset.parent / "schema.json"
    dataset.parent.mkdir(parents=True, exist_ok=True)
    for arguments in (
        ["beam_jobs.infer_schema", *source, f"--label={label}", f"--output={schema}"],
        ["beam_jobs.convert", *source, f"--schema={schema}", f"--output={dataset}", *more],
    ):
        _done(forked.command(arguments, dataset.parent / "log", timeout=_MINUTES))


def _done(ended: forked.Ended) -> None:
    if ended.code:
        raise RuntimeError(f"the data could not be made: {ended.stderr.strip()[-300:]}")

r"""Fine-tuning beside training from scratch: 500 images of digits that the first weights have not seen.

  python -m benchmarks.fine_tuning --data=DIR --scratch=DIR [--seeds=0,1,2] [--json=FILE]

A first run learns MNIST's digits 0 to 4. Then 100 images each of the digits 5 to 9 are learned three ways, in
as many epochs: from scratch; with the first run's backbone frozen; and frozen for a third of the epochs, then
all of it. Accuracy is that of the 4,861 test images of these digits. docs/training.md explains the flags.
--json writes {way: [accuracy of each seed]}.

Hardware: any. Duration: about 6 minutes on 2 cores. Needs 100 MB in --scratch.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence

from absl import app, flags

from pipeline.base.errors import FailedError, InputError, answers_bad_input

_DATA = flags.DEFINE_string(
    "data", None, "Folder of the real data, with mnist_png/mnist_png.tar.gz.", required=True
)
_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for datasets and runs.", required=True)
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of each way.")
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")

_ROOT = pathlib.Path(__file__).parents[1]
_FIRST, _SECOND = "01234", "56789"
_EPOCHS, _FROZEN_EPOCHS = 30, 10
_HEAD = "--config.init.without=('logits/*',)"  # it answers for other digits
_BACKBONE = "--config.train.frozen=('conv2d*', 'group_normalization*')"
_TRAIN = (
    *("-m", "pipeline.train", "--config=pipeline/configs/mnist_resnet.py", "--strategy=one_device"),
    *("--config.global_batch=50", "--config.optimizer.ema=0.0", "--config.optimizer.warmup_part=0.1"),
)


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch = pathlib.Path(_SCRATCH.value).absolute()
    images = _unpacked(pathlib.Path(_DATA.value), scratch / "images")
    first = _dataset(images, scratch, name="first", digits=_FIRST, examples=1_000)
    second = _dataset(images, scratch, name="second", digits=_SECOND, examples=100)
    backbone = scratch / "runs" / "first"
    _train(first, backbone, "--config.train.epochs=4")
    found = {"from scratch": [], "frozen": [], "frozen, then all": []}
    for seed in _SEEDS.value:
        for way, accuracy in _ways(second, backbone, scratch / "runs", seed):
            found[way].append(accuracy)
            print(f"seed {seed}, {way}: {accuracy:.4f}", flush=True)
    print("\n".join(_table(found)))
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2))


def _ways(
    dataset: pathlib.Path, first: pathlib.Path, runs: pathlib.Path, seed: str
) -> Sequence[tuple[str, float]]:
    """Trains each way; returns it with its accuracy."""
    seeded, begins = (f"--config.seed={seed}",), (f"--config.init.from={first}", _HEAD)
    warmed = runs / f"warmed-{seed}"
    _train(dataset, warmed, *seeded, *begins, _BACKBONE, f"--config.train.epochs={_FROZEN_EPOCHS}")
    rest = (f"--config.init.from={warmed}", f"--config.train.epochs={_EPOCHS - _FROZEN_EPOCHS}")
    whole = f"--config.train.epochs={_EPOCHS}"
    return [
        ("from scratch", _train(dataset, runs / f"scratch-{seed}", *seeded, whole)),
        ("frozen", _train(dataset, runs / f"frozen-{seed}", *seeded, *begins, _BACKBONE, whole)),
        (
            "frozen, then all",
            _train(dataset, runs / f"all-{seed}", *seeded, *rest, "--config.optimizer.learning_rate=1e-3"),
        ),
    ]


def _train(dataset: pathlib.Path, workdir: pathlib.Path, *given: str) -> float:
    """Trains, or goes on; returns the accuracy on the test split."""
    _run(*_TRAIN, f"--dataset={dataset}", f"--workdir={workdir}", *given)
    return json.loads((workdir / "evaluation.json").read_text())["accuracy"]


def _run(*command: str) -> None:
    done = subprocess.run([sys.executable, *command], cwd=_ROOT, text=True, capture_output=True, check=False)
    if done.returncode:
        raise FailedError(
            f"python {' '.join(command)}",
            received=(done.stderr.strip().splitlines() or ["nothing"])[-1],
            expected="a command that succeeds",
            action="Run it by itself.",
        )


def _unpacked(data: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    archive = data / "mnist_png" / "mnist_png.tar.gz"
    if not archive.exists():
        raise InputError(
            f"--data={data}", received=f"no {archive}", expected="MNIST's images", action="Name it."
        )
    if not folder.exists():
        shutil.unpack_archive(archive, folder.with_suffix(".part"), filter="data")
        folder.with_suffix(".part").rename(folder)
    return next(folder.rglob("train")).parent


def _dataset(
    images: pathlib.Path, scratch: pathlib.Path, *, name: str, digits: str, examples: int
) -> pathlib.Path:
    """Converts some training images of each digit, and all test images; returns the dataset's directory."""
    output, raw = scratch / name / "1.0.0", scratch / f"{name}-images"
    if (output / "manifest.json").exists():
        return output
    for split, most in (("train", examples), ("test", None)):
        for digit in digits:
            folder = raw / split / digit
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted((images / split / digit).iterdir())[:most]:
                shutil.copyfile(path, folder / path.name)
    source = ("--format=images", f"--input=train={raw}/train", f"--input=test={raw}/test")
    schema = f"{scratch}/{name}.json"
    _run("-m", "beam_jobs.infer_schema", *source, f"--name={name}", f"--output={schema}")
    _run("-m", "beam_jobs.convert", *source, f"--schema={schema}", f"--output={output}")
    return output


def _table(found: dict[str, list[float]]) -> list[str]:
    columns = [f"seed {seed}" for seed in _SEEDS.value]
    lines = [f"| | {' | '.join([*columns, 'mean'])} |", "|---" * (len(columns) + 2) + "|"]
    for way, accuracies in found.items():
        each = " | ".join(f"{accuracy:.4f}" for accuracy in accuracies)
        lines.append(f"| {way} | {each} | {statistics.fmean(accuracies):.4f} |")
    return lines


if __name__ == "__main__":
    app.run(main)

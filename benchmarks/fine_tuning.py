r"""Fine-tuning beside training from scratch: 500 images of digits that the first weights have not seen.

  python -m benchmarks.fine_tuning --data=DIR --scratch=DIR [--seeds=0,1,2] [--json=FILE]

A first run learns MNIST's digits 0 to 4. Then 100 images each of the digits 5 to 9 are learned: from scratch,
and from the first run's weights, with its backbone frozen for a third of the steps before all of it learns:
by the rate of the head, or by a part of it.
Accuracy is that of the 4,861 test images of these digits. docs/training.md explains the keys of the config.
--json writes {way: [accuracy of each seed]}. What is done is not done again.

Hardware: any. Duration: about 7 minutes of CPU time. Needs 100 MB in --scratch.
"""

import json
import pathlib
import statistics
import tarfile
from collections.abc import Iterator, Sequence

import keras
from absl import app, flags

from benchmarks.commands import run_python
from pipeline.base.errors import InputError, answers_bad_input
from pipeline.configs import mnist_resnet
from pipeline.data.dataset import window
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment.config import as_json, parse
from pipeline.training.run import run
from pipeline.training.run.request import Request

_DATA = flags.DEFINE_string("data", None, "Folder with mnist_png/mnist_png.tar.gz.", required=True)
_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for datasets and runs.", required=True)
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2"], "Seeds of each way.")
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")

_BACKBONE, _HEAD = ("conv2d*", "group_normalization*"), ("logits/*",)
_STEPS, _FROZEN_STEPS = 300, 100  # of 50 images: 30 epochs, of which 10


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch = pathlib.Path(_SCRATCH.value).absolute()
    archive = pathlib.Path(_DATA.value) / "mnist_png" / "mnist_png.tar.gz"
    first = _dataset(archive, scratch / "first", digits="01234", train=4_000, test=100)
    second = _dataset(archive, scratch / "second", digits="56789", train=100, test=10_000)
    backbone = scratch / "runs" / "first"
    print(f"digits 0 to 4: {_trained(first, backbone, **{'train.epochs': 4.0}):.4f}", flush=True)
    found: dict[str, list[float]] = {}
    for seed in map(int, _SEEDS.value):
        for way, accuracy in _ways(second, backbone, scratch / "runs", seed):
            found.setdefault(way, []).append(accuracy)
            print(f"seed {seed}, {way}: {accuracy:.4f}", flush=True)
    print("\n".join(_table(found)))
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2))


def _ways(
    dataset: pathlib.Path, first: pathlib.Path, runs: pathlib.Path, seed: int
) -> Iterator[tuple[str, float]]:
    """Trains each way; yields it with its accuracy."""
    frozen, begins = runs / f"frozen-{seed}", {"init.source": str(first), "init.without": _HEAD}
    # One layer on fixed features needs, in so few steps, a larger learning rate than a whole network.
    keep = {"train.frozen": _BACKBONE, "train.steps": _FROZEN_STEPS, "optimizer.learning_rate": 3e-2}
    rest = {"train.steps": _STEPS - _FROZEN_STEPS}
    scratch = runs / f"scratch-{seed}"
    yield "from scratch, 300 steps", _trained(dataset, scratch, seed=seed, **{"train.steps": _STEPS})
    yield "frozen, 100 steps", _trained(dataset, frozen, seed=seed, **begins, **keep)
    whole = {"init.source": str(frozen), **rest}
    yield "then all, 200 steps", _trained(dataset, runs / f"whole-{seed}", seed=seed, **whole)
    for factor in (0.3, 0.1):
        slow = {**whole, "optimizer.rates": (*((name, 1.0) for name in _HEAD), ("*", factor))}
        way = f"then all, 200 steps, the backbone × {factor:g}"
        yield way, _trained(dataset, runs / f"slow-{factor:g}-{seed}", seed=seed, **slow)


def _trained(dataset: pathlib.Path, workdir: pathlib.Path, **settings: object) -> float:
    """Trains, or goes on; returns the accuracy on the test split."""
    keras.utils.clear_session(free_memory=False)  # layers are named as in a process of its own
    config = mnist_resnet.get_config()
    config.model.widths, config.augmentation.rotate_degrees = (8, 16, 32), 0.0
    config.global_batch, config.optimizer.ema = 50, 0.0
    config.optimizer.warmup_steps, config.optimizer.warmup_part = 0, 0.1
    config.update_from_flattened_dict(settings)
    request = Request(
        experiment=parse(as_json(config.to_dict())),
        config_file="pipeline/configs/mnist_resnet.py",
        dataset=window.open_window([str(dataset)]),
        workdir=workdir,
        strategy="one_device",
    )
    return run.train(request)["accuracy"]


def _dataset(
    archive: pathlib.Path, folder: pathlib.Path, *, digits: str, train: int, test: int
) -> pathlib.Path:
    """Converts the first images of each digit, as many as there are up to a number; returns the dataset."""
    output = folder / "1.0.0"
    if (output / "manifest.json").exists():
        return output
    if not archive.exists():
        raise InputError(
            "--data", received=f"no {archive}", expected="MNIST as PNG files", action="Name its folder."
        )
    with tarfile.open(archive) as images:
        _extract(
            images, folder, {(split, d): n for split, n in (("train", train), ("test", test)) for d in digits}
        )
    image, label = (
        Image(name="image", height=28, width=28, channels=1),
        Label(name="label", task="multiclass", classes=tuple(digits)),
    )
    schema_lib.save(Schema(name=f"mnist_{digits[0]}", features=(image, label)), folder / "schema.json")
    inputs = (f"--input={split}={folder}/{split}" for split in ("train", "test"))
    run_python(
        "-m",
        "beam_jobs.convert",
        "--format=images",
        *inputs,
        f"--schema={folder}/schema.json",
        f"--output={output}",
    )
    return output


def _extract(images: tarfile.TarFile, folder: pathlib.Path, wanted: dict[tuple[str, str], int]) -> None:
    """Writes images, the lowest numbers of each (split, digit), to `folder`/split/digit."""
    members: dict[tuple[str, str], list[tarfile.TarInfo]] = {key: [] for key in wanted}
    for member in images.getmembers():
        *_, split, digit, _ = ("", "", *member.name.split("/"))
        if member.isfile() and (split, digit) in wanted:
            members[split, digit].append(member)
    for key, some in members.items():
        chosen = sorted(some, key=lambda member: int(pathlib.Path(member.name).stem))[: wanted[key]]
        images.extractall(folder, chosen, filter="data")


def _table(found: dict[str, list[float]]) -> list[str]:
    columns = [f"seed {seed}" for seed in _SEEDS.value]
    lines = [f"| | {' | '.join([*columns, 'mean'])} |", "|---" * (len(columns) + 2) + "|"]
    for way, accuracies in found.items():
        each = " | ".join(f"{accuracy:.4f}" for accuracy in accuracies)
        lines.append(f"| {way} | {each} | {statistics.fmean(accuracies):.4f} |")
    return lines


if __name__ == "__main__":
    app.run(main)

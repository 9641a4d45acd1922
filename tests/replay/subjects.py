"""The runs whose steps are replayed: killed, on changing hosts and replicas, on mixtures, of each layout."""

import dataclasses
import math
import pathlib
from collections.abc import Callable

import numpy as np
from ml_collections import ConfigDict

from pipeline.data.dataset import manifest
from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.run.request import Request
from tests.pipeline.training.small_run import SCHEMA, rows, small_config
from tests.shared import pictures
from tests.shared.parsed import parsed
from tests.shared.tiny_dataset import write_dataset

STEPS = 160  # 3.7 epochs of 700 examples
_IMAGES = Schema(
    name="pictures",
    features=(Image(name="image", height=12, width=12, channels=3), Label(name="y", classes=("no", "yes"))),
)
_TOKENS = Schema(
    name="tokens",
    features=(
        Tokens(name="words", length=9, vocabulary_size=500),
        Numeric(name="x", missing="mark"),
        Label(name="y", classes=("no", "maybe", "yes"), task="multiclass"),
    ),
)
_WEIGHTED = Schema(name="weighted", features=(Numeric(name="weight"), *SCHEMA.features))
_CHANGES = {"crop_area": (0.3, 1.0), "flip": True, "rotate_degrees": 15.0, "brightness": 0.3, "hue": 0.1}
_MIXES = {"mixup": 0.4, "cutmix": 1.0}
_SIZES = {"train": 700, "validation": 40, "test": 40}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hosts:
    """Where a part of a run trains, until it is killed there or the run ends."""

    workers: int = 1
    replicas: int = 1  # of each worker

    @property
    def strategy(self) -> str:
        if self.workers > 1:
            return "multi_worker"
        return "mirrored" if self.replicas > 1 else "one_device"


ONE, TWO_REPLICAS, FOUR_REPLICAS = Hosts(), Hosts(replicas=2), Hosts(replicas=4)
TWO_WORKERS = Hosts(workers=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A run; it is killed between any two of its parts."""

    name: str
    parts: tuple[Hosts, ...]
    layout: str = "rows"
    shuffle: str = "auto"
    is_mixture: bool = False
    content: str = "numbers"  # or images, mixed images, tokens, or numbers with a weight for each example


SUBJECTS = (
    Subject(name="killed", parts=(ONE, ONE, ONE, ONE)),
    Subject(name="killed_windows", shuffle="windows", parts=(ONE, TWO_REPLICAS, ONE)),
    Subject(name="elastic_blocks", layout="blocks", parts=(ONE, FOUR_REPLICAS, TWO_REPLICAS)),
    Subject(name="elastic_workers", shuffle="global", parts=(TWO_WORKERS, ONE, TWO_WORKERS, TWO_REPLICAS)),
    Subject(name="mixture", is_mixture=True, parts=(ONE, TWO_REPLICAS)),
    Subject(
        name="mixture_blocks",
        layout="blocks",
        shuffle="windows",
        is_mixture=True,
        parts=(TWO_REPLICAS, TWO_WORKERS, ONE),
    ),
    Subject(name="weighted", content="weighted", parts=(ONE, TWO_REPLICAS, ONE)),
    Subject(name="images", content="images", parts=(ONE, TWO_REPLICAS)),
    Subject(name="mixed_images", content="mixed_images", parts=(ONE, FOUR_REPLICAS, TWO_REPLICAS)),
    Subject(name="tokens", content="tokens", layout="blocks", parts=(TWO_REPLICAS, ONE, ONE)),
)

SHORT = Subject(name="short", layout="blocks", is_mixture=True, parts=(TWO_REPLICAS, ONE))


def write_datasets(subject: Subject, folder: pathlib.Path) -> None:
    """Writes what the subject trains on into `folder`."""
    schema, make = _CONTENTS[subject.content]
    for seed, name in enumerate(("main", "other") if subject.is_mixture else ("main",)):
        splits = {split: make(count, 10 * seed + at) for at, (split, count) in enumerate(_SIZES.items())}
        write_dataset(folder / name, schema, splits, layout=subject.layout)


def request(subject: Subject, folder: pathlib.Path, hosts: Hosts, *, steps: int = STEPS) -> Request:
    """What one process of the subject is asked to do."""
    return Request(
        experiment=parsed(_config(subject, folder, steps)),
        dataset=manifest.open_dataset(folder / "main"),
        workdir=folder / "run",
        precision="float32",
        strategy=hosts.strategy,
        logical_devices=hosts.replicas,
    )


def _config(subject: Subject, folder: pathlib.Path, steps: int) -> ConfigDict:
    config = small_config()
    config.train.steps = steps
    config.shuffle = subject.shuffle
    config.train.checkpoint_every_steps = 25
    if subject.is_mixture:
        config.mixture = ((str(folder / "other"), "train[:300]", 0.4),)
    if subject.content == "weighted":
        config.train.example_weights = "weight"
    if subject.content in ("images", "mixed_images"):
        config.augmentation.update(_CHANGES)
        config.augmentation.update(_MIXES if subject.content == "mixed_images" else {})
        config.model = ConfigDict({"name": "resnet", "widths": (4,), "blocks_per_stage": 1})
    return config


def _numbers(count: int, seed: int) -> list[dict]:
    return rows(count, seed=seed)


def _weighted(count: int, seed: int) -> list[dict]:
    weights = np.random.default_rng(seed).exponential(size=count).tolist()
    return [row | {"weight": weight} for row, weight in zip(_numbers(count, seed), weights, strict=True)]


def _images(count: int, seed: int) -> list[dict]:
    return [
        {"image": pictures.encode(pictures.noise(12, 12, 3, seed=1000 * seed + i), "PNG"), "y": i % 2}
        for i in range(count)
    ]


def _tokens(count: int, seed: int) -> list[dict]:
    draw = np.random.default_rng(seed)
    words = draw.integers(1, 500, size=(count, 9))
    return [
        {"words": each.tolist(), "x": math.nan if i % 5 == 0 else float(i), "y": i % 3}
        for i, each in enumerate(words)
    ]


_CONTENTS: dict[str, tuple[Schema, Callable[[int, int], list[dict]]]] = {
    "numbers": (SCHEMA, _numbers),
    "weighted": (_WEIGHTED, _weighted),
    "images": (_IMAGES, _images),
    "mixed_images": (_IMAGES, _images),
    "tokens": (_TOKENS, _tokens),
}

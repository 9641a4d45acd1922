"""Certified pipelines: eight as training reads them, those that scale badly, and one from a slow disk.

Their batches are those of `pipeline/configs`. An epoch of rows is several windows, as it is of anything that
takes long to train on. Of those that scale badly only what is promised has to be kept.
"""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.stages import Recipe
from pipeline.data.input.training import training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import Mixture, Part, TrainingData, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.feed import measure
from pipeline.feed.certificate import Certificate, Demand, copy_to, issue
from pipeline.feed.measure import Cold
from pipeline.feed.scaling import HERE
from tests.shared.tiny_dataset import write_dataset
from tests.unit.feed.pipelines import BATCH as SLOW_BATCH
from tests.unit.feed.pipelines import raw, write_records
from tests.unit.feed.slowed import slowed

BATCH, IMAGES_BATCH = 256, 64
COLUMNS, ROWS = 16, 60_000
SIDE, IMAGES = 96, 192
LENGTH, SEQUENCES = 256, 30_000

_LABEL = Label(name="y", classes=("a", "b"))
_TABLE = Schema(name="table", features=(*(Numeric(name=f"x{i}") for i in range(COLUMNS)), _LABEL))
_IMAGES = Schema(name="images", features=(Image(name="image", height=SIDE, width=SIDE), _LABEL))
_TOKENS = Schema(name="text", features=(Tokens(name="tokens", length=LENGTH, vocabulary_size=9_000), _LABEL))
_AUGMENTED = Augmentation(
    crop_area=(0.3, 1.0), flip=True, rotate_degrees=15.0, zoom=0.2, brightness=0.4, contrast=0.4, hue=0.1
)


def eight(folder: pathlib.Path) -> Mapping[str, Callable[[], Recipe]]:
    """By name; each writes its data below `folder` when it is first called."""
    return {
        "table, rows": lambda: recipe_of(table(folder / "rows")),
        "table, blocks": lambda: recipe_of(table(folder / "blocks", layout="blocks"), shuffle="windows"),
        "table, mapped": lambda: recipe_of(table(folder / "blocks", layout="blocks")),
        "tokens": lambda: recipe_of(written(folder / "tokens", _TOKENS, _sequences)),
        "mixture": lambda: recipe_of(_mixture(folder)),
        "images, uint8": lambda: _of_images(folder),
        "images, float32": lambda: _of_images(folder, image_dtype="float32"),
        "images, augmented": lambda: _of_images(folder, augmentation=_AUGMENTED),
    }


def _of_images(folder: pathlib.Path, **how: object) -> Recipe:
    return recipe_of(written(folder / "images", _IMAGES, _pictures), batch=IMAGES_BATCH, **how)


def recipe_of(
    data: TrainingData,
    *,
    batch: int = BATCH,
    share: Share | None = None,
    shuffle: str = "auto",
    image_dtype: str = "uint8",
    augmentation: Augmentation = Augmentation(),
) -> Recipe:
    """As training reads `data`, all of it or a host's share."""
    plan = plan_reading(data, share=share or Share(global_batch=batch), seed=0, shuffle=shuffle)
    dataset = plan.selection.dataset
    return training_recipe(
        plan,
        Preprocess(dataset.schema, loading.of_training(dataset), image_dtype=image_dtype),
        augmentation=augmentation,
    )


def written(
    folder: pathlib.Path, schema: Schema, rows: Callable[[], Sequence[dict]], *, layout: str = "rows"
) -> Selection:
    """Those rows; written once, and then read again."""
    if (folder / manifest.FILE_NAME).exists():
        return select(manifest.open_dataset(folder), "train")
    return select(write_dataset(folder, schema, {"train": rows()}, layout=layout), "train")


def table(folder: pathlib.Path, *, layout: str = "rows", rows: int = ROWS) -> Selection:
    """Numbers, in `folder`."""
    return written(folder, _TABLE, lambda: _rows(rows), layout=layout)


def _rows(count: int) -> list[dict]:
    columns = np.random.default_rng(0).normal(size=(count, COLUMNS)).round(3).tolist()
    return [{f"x{i}": value for i, value in enumerate(row)} | {"y": n % 2} for n, row in enumerate(columns)]


def _mixture(folder: pathlib.Path) -> Mixture:
    parts = ((folder / "rows", 0.7), (folder / "more rows", 0.3))
    return Mixture(parts=tuple(Part(selection=table(path), weight=weight) for path, weight in parts))


def _sequences() -> list[dict]:
    numbers = np.random.default_rng(0).integers(0, 9_000, (SEQUENCES, LENGTH)).tolist()
    return [{"tokens": row, "y": n % 2} for n, row in enumerate(numbers)]


def _pictures() -> list[dict]:
    """JPEG files of smooth noise."""
    coarse = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), np.uint8)
    pixels = tf.cast(tf.image.resize(coarse, [SIDE, SIDE]), tf.uint8)
    encoded = [tf.io.encode_jpeg(image).numpy() for image in pixels]
    return [{"image": encoded[n % 8], "y": n % 2} for n in range(IMAGES)]


PHOTOGRAPH_SIDE, PHOTOGRAPHS, PHOTOGRAPHS_BATCH = 480, 64, 32
FOUR_HOSTS = Share(global_batch=1_024, replicas=4, shard_count=4)
TINY_BATCH = Share(global_batch=8)
_SLOWED = ("Python function", "Python generator", "one-thread map", "far storage")

_PHOTOGRAPHS = Schema(
    name="photographs",
    features=(
        Image(name="image", height=PHOTOGRAPH_SIDE, width=PHOTOGRAPH_SIDE),
        Label(name="y", classes=("a", "b")),
    ),
)


def odd(folder: pathlib.Path, scratch: pathlib.Path) -> Mapping[str, Callable[[], Recipe]]:
    """By name; each writes its data when it is called: below `folder` what can be read again."""
    cases = slowed(scratch)
    return {
        "photographs": lambda: _of_photographs(folder),
        "mixed photographs": lambda: recipe_of(_mixed_photographs(folder), batch=PHOTOGRAPHS_BATCH),
        "one by one": lambda: recipe_of(table(folder / "rows"), shuffle="global"),
        "tiny batches": lambda: recipe_of(table(folder / "blocks", layout="blocks"), share=TINY_BATCH),
        "rows, 4 hosts": lambda: recipe_of(table(folder / "rows"), share=FOUR_HOSTS),
        "mapped, 4 hosts": lambda: recipe_of(table(folder / "blocks", layout="blocks"), share=FOUR_HOSTS),
        "one window": lambda: recipe_of(table(folder / "few", rows=3_000)),
        **{name: lambda name=name: cases[name]().recipe for name in _SLOWED},
    }


def _of_photographs(folder: pathlib.Path) -> Recipe:
    return recipe_of(written(folder / "photographs", _PHOTOGRAPHS, _photographs), batch=PHOTOGRAPHS_BATCH)


def _mixed_photographs(folder: pathlib.Path) -> Mixture:
    parts = ((folder / "photographs", 0.9), (folder / "more photographs", 0.1))
    return Mixture(
        parts=tuple(
            Part(selection=written(path, _PHOTOGRAPHS, _photographs), weight=weight) for path, weight in parts
        )
    )


def _photographs() -> list[dict]:
    """JPEG files of noise, of 200 KiB."""
    pixels = np.random.default_rng(0).integers(0, 256, (4, PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE, 3), np.uint8)
    encoded = [tf.io.encode_jpeg(image).numpy() for image in pixels]
    return [{"image": encoded[n % 4], "y": n % 2} for n in range(PHOTOGRAPHS)]


BYTES_PER_S = 4 << 20
RECORDS, RECORD_BYTES = 4_096, 4 << 10


def of_slow_disk(folder: pathlib.Path, *, seconds: float) -> Certificate:
    """Certifies single records of 4 KiB from a disk that gives 4 MiB a second, in part in the page cache.

    Steps take twice what the page cache gives, so whoever asks that alone would be told that they are fed.

    Raises:
      OSError: the disk cannot be throttled here.
    """
    noise = np.random.default_rng(0).integers(0, 256, (RECORDS, RECORD_BYTES), np.uint8)
    path = write_records(folder, [row.tobytes() for row in noise])
    recipe = raw(lambda: tf.data.TFRecordDataset(path, buffer_size=256 << 10))

    def certify(step_ms: float | None, cold: Cold | None) -> Certificate:
        demand = Demand(global_batch=SLOW_BATCH, slice=HERE, step_ms=step_ms)
        files = measure.residency([path])
        return issue(recipe, demand, copy=copy_to("CPU:0"), seconds=seconds, files=files, cold_files=cold)

    step_ms = 2 * certify(None, None).shortest_step_ms
    with throttled(folder, bytes_per_s=BYTES_PER_S):
        return certify(step_ms, Cold(paths=[path], examples=RECORDS))


_ONE = pathlib.Path("/sys/fs/cgroup/blkio")  # of the first version
_TWO = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def throttled(folder: pathlib.Path, *, bytes_per_s: int) -> Iterator[None]:
    """This process reads from the disk below `folder` at this pace, in the block.

    Raises:
      OSError: this system has no such control group, or does not let this user make one.
    """
    device = folder.stat().st_dev
    disk = f"{os.major(device)}:{os.minor(device)}"
    root = _ONE if _ONE.is_dir() else _TWO
    group, before = root / f"penstock-{os.getpid()}", root / _own_group(root)
    group.mkdir()
    try:
        if root is _ONE:
            (group / "blkio.throttle.read_bps_device").write_text(f"{disk} {bytes_per_s}")
        else:
            (group / "io.max").write_text(f"{disk} rbps={bytes_per_s}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _own_group(root: pathlib.Path) -> str:
    """The path of this process's group below `root`."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == ("blkio" if root is _ONE else ""):
            return path.lstrip("/")
    raise OSError("this process is in no group for disks")

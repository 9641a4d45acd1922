"""Eight pipelines as training reads them: tables in each layout and way, images, tokens, a mixture.

Their batches are those of `pipeline/configs`. An epoch of rows is several windows, as it is of anything that
takes long to train on.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence

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
from tests.shared.tiny_dataset import write_dataset

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

"""Eight pipelines as training reads them: tables in each layout and way, images, tokens, a mixture."""

import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import Selection, select
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.stages import Recipe
from pipeline.data.input.training import training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.host_share import Share
from pipeline.data.reading.mixture import Mixture, Part, TrainingData
from pipeline.data.reading.plan import plan_reading
from pipeline.data.schema.kinds import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.tiny_dataset import write_dataset

BATCH = 64
COLUMNS, ROWS = 16, 6_000
SIDE, IMAGES = 96, 192
LENGTH, SEQUENCES = 256, 2_000

_LABEL = Label(name="y", classes=("a", "b"))
_TABLE = Schema(name="table", features=(*(Numeric(name=f"x{i}") for i in range(COLUMNS)), _LABEL))
_IMAGES = Schema(name="images", features=(Image(name="image", height=SIDE, width=SIDE), _LABEL))
_TOKENS = Schema(name="text", features=(Tokens(name="tokens", length=LENGTH, vocabulary_size=9_000), _LABEL))
_AUGMENTED = Augmentation(
    crop_area=(0.3, 1.0), flip=True, rotate_degrees=15.0, zoom=0.2, brightness=0.4, contrast=0.4, hue=0.1
)


def eight(folder: pathlib.Path) -> Mapping[str, Callable[[], Recipe]]:
    """By name; each writes its data below `folder` when it is called."""
    return {
        "table, rows": lambda: _recipe(_table(folder / "rows")),
        "table, blocks": lambda: _recipe(_table(folder / "blocks", layout="blocks"), shuffle="windows"),
        "table, mapped": lambda: _recipe(_table(folder / "mapped", layout="blocks")),
        "tokens": lambda: _recipe(_written(folder / "tokens", _TOKENS, _sequences())),
        "mixture": lambda: _recipe(_mixture(folder / "mixture")),
        "images, uint8": lambda: _recipe(_written(folder / "uint8", _IMAGES, _pictures())),
        "images, float32": lambda: _recipe(
            _written(folder / "float32", _IMAGES, _pictures()), image_dtype="float32"
        ),
        "images, augmented": lambda: _recipe(
            _written(folder / "augmented", _IMAGES, _pictures()), augmentation=_AUGMENTED
        ),
    }


def _recipe(
    data: TrainingData,
    *,
    shuffle: str = "auto",
    image_dtype: str = "uint8",
    augmentation: Augmentation = Augmentation(),
) -> Recipe:
    plan = plan_reading(data, share=Share(global_batch=BATCH), seed=0, shuffle=shuffle)
    dataset = plan.selection.dataset
    return training_recipe(
        plan,
        Preprocess(dataset.schema, loading.of_training(dataset), image_dtype=image_dtype),
        augmentation=augmentation,
    )


def _written(
    folder: pathlib.Path, schema: Schema, rows: Sequence[dict], *, layout: str = "rows"
) -> Selection:
    return select(write_dataset(folder, schema, {"train": rows}, layout=layout), "train")


def _table(folder: pathlib.Path, *, layout: str = "rows") -> Selection:
    columns = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).round(3).tolist()
    rows = [{f"x{i}": value for i, value in enumerate(row)} | {"y": n % 2} for n, row in enumerate(columns)]
    return _written(folder, _TABLE, rows, layout=layout)


def _mixture(folder: pathlib.Path) -> Mixture:
    parts = ((folder / "much", 0.7), (folder / "little", 0.3))
    return Mixture(parts=tuple(Part(selection=_table(path), weight=weight) for path, weight in parts))


def _sequences() -> list[dict]:
    numbers = np.random.default_rng(0).integers(0, 9_000, (SEQUENCES, LENGTH)).tolist()
    return [{"tokens": row, "y": n % 2} for n, row in enumerate(numbers)]


def _pictures() -> list[dict]:
    """JPEG files of smooth noise."""
    coarse = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), np.uint8)
    pixels = tf.cast(tf.image.resize(coarse, [SIDE, SIDE]), tf.uint8)
    encoded = [tf.io.encode_jpeg(image).numpy() for image in pixels]
    return [{"image": encoded[n % 8], "y": n % 2} for n in range(IMAGES)]

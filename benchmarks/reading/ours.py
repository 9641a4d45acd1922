"""This project's own ways to read: what training runs, up to the features that peers yield."""

import dataclasses
import pathlib
from collections.abc import Iterator

from benchmarks.reading.shapes import BATCH, SIDE
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow, as the commands do

import tensorflow as tf  # isort: skip

from benchmarks.reading.graph_batches import GraphBatches
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.stages import Recipe, Stage
from pipeline.data.input.training import training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing
from pipeline.data.reading.parsing import features_of_words
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading

_SEED = 1
_CROP = {"crop_area": (0.08, 1.0), "crop_aspect": (3 / 4, 4 / 3), "flip": True}


def tabular_rows(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `rows`: runs of records permuted, rows permuted in windows, parsed by the chunk."""
    return _features(directory / "rows", "tabular", shuffle="windows")


def tabular_blocks(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `blocks`: blocks permuted, rows permuted in windows of blocks."""
    return _features(directory / "blocks", "tabular", shuffle="windows")


def tabular_mapped(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `blocks`, mapped into memory: global permutation of rows, packed: the step cuts columns out."""
    dataset = manifest.open_dataset(directory / "blocks")
    recipe = _recipe(dataset, Preprocess(dataset.schema, _statistics(dataset)), "tabular", shuffle="global")
    return _up_to(recipe, "gather", Stage(name="rows", apply=_as_numbers))


def tokens_rows(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `rows` of packed rows: permuted in windows, parsed by the chunk: int32."""
    return _features(directory / "rows", "tokens", shuffle="windows")


def tokens_blocks(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `blocks` of packed rows: blocks permuted, rows permuted in windows of blocks: int32."""
    return _features(directory / "blocks", "tokens", shuffle="windows")


def tokens_mapped(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `blocks`, mapped into memory: global permutation of packed rows: int32."""
    return _features(directory / "blocks", "tokens", shuffle="global")


def images_uint8(directory: pathlib.Path) -> Iterator[tuple]:
    """Dataset `rows`: global permutation, decoded as cropped, stateless augmentation: uint8."""
    return _images(directory, "uint8")


def images_float32(directory: pathlib.Path) -> Iterator[tuple]:
    """The same, normalised on the host: float32."""
    return _images(directory, "float32")


def _features(directory: pathlib.Path, workload: str, *, shuffle: str) -> Iterator[tuple]:
    """Raw features: peers do not standardise numbers either."""
    dataset = manifest.open_dataset(directory)
    preprocess = Preprocess(dataset.schema, _statistics(dataset))
    recipe = _recipe(dataset, preprocess, workload, shuffle=shuffle)

    def features(_: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
        if rows.dtype == tf.string:
            found = tf.io.parse_example(rows, parsing.parsing_spec(dataset.schema))
        else:
            found = features_of_words(rows, dataset.schema)
        return tuple(_narrow(found[feature.name]) for feature in dataset.schema.features)

    return _up_to(recipe, "gather", Stage(name="features", apply=features))


def _as_numbers(_: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor]:
    """uint16 [n, words] → the same bytes as int32 [n, words / 2]; nothing is copied."""
    return (tf.bitcast(tf.reshape(words, [words.shape[0], -1, 2]), tf.int32),)


def _up_to(recipe: Recipe, name: str, last: Stage) -> Iterator[tuple]:
    """The recipe's stages to the one of this name, if there is one, and `last` in place of all others."""
    kept = tuple(stage for stage in recipe.stages if stage.name == name)
    return GraphBatches(dataclasses.replace(recipe, stages=(*kept, last)).dataset())


def _images(directory: pathlib.Path, image_dtype: str) -> Iterator[tuple]:
    dataset = manifest.open_dataset(directory / "rows")
    preprocess = Preprocess(
        dataset.schema, _statistics(dataset), image_size=(SIDE, SIDE), image_dtype=image_dtype
    )
    batches = _recipe(dataset, preprocess, "images", shuffle="auto").dataset()
    return GraphBatches(batches.map(lambda inputs, label: (inputs["image"], label)))


def _recipe(dataset: Dataset, preprocess: Preprocess, workload: str, *, shuffle: str) -> Recipe:
    share = Share(global_batch=BATCH[workload])
    return training_recipe(
        plan_reading(select(dataset, "train"), share=share, seed=_SEED, shuffle=shuffle),
        preprocess,
        augmentation=Augmentation(**_CROP) if workload == "images" else Augmentation(),
    )


def _statistics(dataset: Dataset) -> SplitStatistics:
    return loading.load(dataset)["train"]


def _narrow(feature: tf.Tensor) -> tf.Tensor:
    return tf.cast(feature, tf.int32) if feature.dtype == tf.int64 else feature

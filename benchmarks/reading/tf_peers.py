"""Other ways to read the same TFRecords with tf.data, each as its own documentation shows it.

Each function takes the directory of a workload and returns endless batches (see `epoch.py`).
"""

import pathlib
from collections.abc import Iterator

import tensorflow as tf
import tensorflow_datasets as tfds

from benchmarks.reading.graph_batches import GraphBatches
from benchmarks.reading.shapes import BATCH, CATEGORIES, MEAN, NUMBERS, ROW_TOKENS, SIDE, STD

_SHUFFLE_BUFFER = 10_000
_IMAGES_SHUFFLE_BUFFER = 2048
_READ_BUFFER_BYTES = 1 << 20  # 1 MiB
_DOCUMENTS_AT_ONCE = 1024
_FEATURES = {
    "tabular": {
        "dense": tf.io.FixedLenFeature([NUMBERS], tf.float32),
        "cat": tf.io.FixedLenFeature([CATEGORIES], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    },
    "images": {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    },
}


def naive_rows(directory: pathlib.Path) -> Iterator[tuple]:
    """`TFRecordDataset` → parse one → shuffle 10,000 → batch."""
    parsed = tf.data.TFRecordDataset(_shards(directory / "rows")).map(
        lambda record: _columns(tf.io.parse_single_example(record, _FEATURES["tabular"])),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return _endless(parsed.shuffle(_SHUFFLE_BUFFER).batch(BATCH["tabular"]))


def batch_then_parse(directory: pathlib.Path) -> Iterator[tuple]:
    """Shards interleaved → shuffle 10,000 → batch → parse the batch at once."""
    records = _interleaved(directory / "rows").shuffle(_SHUFFLE_BUFFER).batch(BATCH["tabular"])
    return _endless(
        records.map(
            lambda batch: _columns(tf.io.parse_example(batch, _FEATURES["tabular"])),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    )


def tfds_rows(directory: pathlib.Path) -> Iterator[tuple]:
    """`as_dataset(shuffle_files=True)` → shuffle 10,000 → batch."""
    rows = _tfds(directory).shuffle(_SHUFFLE_BUFFER).batch(BATCH["tabular"])
    return _endless(rows.map(_columns, num_parallel_calls=tf.data.AUTOTUNE))


def naive_images(directory: pathlib.Path) -> Iterator[tuple]:
    """Parse one → decode all of it → crop, resize, flip, normalise → batch: float32."""
    records = tf.data.TFRecordDataset(_shards(directory / "rows")).shuffle(_IMAGES_SHUFFLE_BUFFER)

    def picture(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(record, _FEATURES["images"])
        image = tf.io.decode_jpeg(example["image"], channels=3)
        begin, size = _random_box(tf.shape(image))
        return _finished(tf.slice(image, begin, size)), example["label"]

    images = records.map(picture, num_parallel_calls=tf.data.AUTOTUNE)
    return _endless(images.batch(BATCH["images"], drop_remainder=True))


def tfds_images(directory: pathlib.Path) -> Iterator[tuple]:
    """`SkipDecoding`, then `decode_and_crop_jpeg`, as Flax's ImageNet example does: float32."""
    examples = _tfds(directory, {"image": tfds.decode.SkipDecoding()}).shuffle(_IMAGES_SHUFFLE_BUFFER)

    def picture(example: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        begin, size = _random_box(tf.io.extract_jpeg_shape(example["image"]))
        window = tf.concat([begin[:2], size[:2]], axis=0)
        image = tf.io.decode_and_crop_jpeg(example["image"], window, channels=3)
        return _finished(image), example["label"]

    images = examples.map(picture, num_parallel_calls=tf.data.AUTOTUNE)
    return _endless(images.batch(BATCH["images"], drop_remainder=True))


def tfds_tokens(directory: pathlib.Path) -> Iterator[tuple]:
    """`as_dataset(shuffle_files=True)` → shuffle 10,000 → batch."""
    rows = _tfds(directory).shuffle(_SHUFFLE_BUFFER).batch(BATCH["tokens"])
    return _endless(rows.map(lambda example: (tf.cast(example["tokens"], tf.int32),)))


def pack_online(directory: pathlib.Path) -> Iterator[tuple]:
    """Documents → shuffle 10,000 → 1,024 parsed and packed at once; what they leave over is dropped."""
    feature = {"tokens": tf.io.RaggedFeature(tf.int64)}

    def packed(documents: tf.Tensor) -> tuple[tf.Tensor]:
        tokens = tf.io.parse_example(documents, feature)["tokens"]
        ends = tf.zeros([tf.shape(documents)[0], 1], tf.int64)
        stream = tf.cast(tf.concat([tokens, ends], axis=1).flat_values, tf.int32)
        rows = tf.size(stream) // ROW_TOKENS
        return (tf.reshape(stream[: rows * ROW_TOKENS], [rows, ROW_TOKENS]),)

    documents = _interleaved(directory / "documents").shuffle(_SHUFFLE_BUFFER)
    rows = documents.batch(_DOCUMENTS_AT_ONCE).map(packed, num_parallel_calls=tf.data.AUTOTUNE)
    return _endless(rows.rebatch(BATCH["tokens"], drop_remainder=True))


def _shards(directory: pathlib.Path) -> list[str]:
    return sorted(map(str, directory.glob("*.tfrecord-*")))


def _interleaved(directory: pathlib.Path) -> tf.data.Dataset:
    shards = _shards(directory)
    return tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards)).interleave(
        lambda shard: tf.data.TFRecordDataset(shard, buffer_size=_READ_BUFFER_BYTES),
        cycle_length=4,
        block_length=16,
        num_parallel_calls=tf.data.AUTOTUNE,
    )  # fmt: skip


def _tfds(directory: pathlib.Path, decoders: dict | None = None) -> tf.data.Dataset:
    builder = tfds.builder_from_directory(directory / "rows")
    return builder.as_dataset(split="train", shuffle_files=True, decoders=decoders)


def _endless(batches: tf.data.Dataset) -> Iterator[tuple]:
    return GraphBatches(batches.prefetch(tf.data.AUTOTUNE).repeat())


def _columns(example: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    return example["dense"], tf.cast(example["cat"], tf.int32), tf.cast(example["label"], tf.int32)


def _random_box(shape: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Begin and size, int32 [3] each, of a random part of an image of `shape`."""
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape,
        tf.zeros([0, 0, 4]),
        area_range=(0.08, 1.0),
        aspect_ratio_range=(3 / 4, 4 / 3),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return begin, size


def _finished(crop: tf.Tensor) -> tf.Tensor:
    """float32 [SIDE, SIDE, 3]"""
    image = tf.image.random_flip_left_right(tf.image.resize(crop, [SIDE, SIDE]))
    return (image - MEAN) / STD

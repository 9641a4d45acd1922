"""Batches for training and evaluation, one replica's share at a time, with static shapes.

Made for `strategy.distribute_datasets_from_function`: replica r of R takes the r-th run of
`global_batch / R` examples of each global batch, however the replicas are spread over hosts.
"""

from collections.abc import Callable

import tensorflow as tf

from pipeline.data import parse, reader
from pipeline.data.augment import Augmentation, augment_images
from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset
from pipeline.data.preprocess import Preprocess


def training_batches(
    dataset: Dataset,
    preprocess: Preprocess,
    *,
    global_batch: int,
    seed: int,
    split: str = "train",
    position: int = 0,
    augmentation: Augmentation = Augmentation(),
    shuffle_buffer: int = 10_000,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Endless batches (inputs, labels) of one replica; they run across epoch boundaries.

    Args:
      position: examples consumed since the start of training.
      shuffle_buffer: records permuted together; also what is held in memory for it.
    """
    context = context or tf.distribute.InputContext()
    schema = dataset.schema

    def prepare(index: tf.Tensor, serialized: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        features, labels = parse.parse_examples(serialized, schema)
        inputs = preprocess(features)
        if "image" in inputs:
            inputs["image"] = augment_images(inputs["image"], index, augmentation=augmentation, seed=seed)
        return inputs, labels

    records = reader.shuffled_order(dataset, split, seed=seed, position=position, window=shuffle_buffer)
    return _mapped(_share(records, global_batch, context), prepare)


def evaluation_batches(
    dataset: Dataset,
    preprocess: Preprocess,
    *,
    split: str,
    global_batch: int,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Batches (inputs, labels, mask) that hold every example of `split` once.

    The last global batch is filled up with copies whose mask is 0; mask is float32 [batch].
    """
    context = context or tf.distribute.InputContext()
    schema, records = dataset.schema, dataset.records(split)
    padding = evaluation_steps(records, global_batch) * global_batch - records
    examples = reader.stored_order(dataset, split)
    padded = examples.concatenate(examples.take(1).cache().repeat(padding)).enumerate()

    def prepare(index: tf.Tensor, serialized: tf.Tensor) -> tuple:
        features, labels = parse.parse_examples(serialized, schema)
        return preprocess(features), labels, tf.cast(index < records, tf.float32)

    return _mapped(_share(padded, global_batch, context), prepare)


def evaluation_steps(records: int, global_batch: int) -> int:
    """Global batches that hold `records` examples, the last one filled up."""
    return -(-records // global_batch)


def _share(
    records: tf.data.Dataset, global_batch: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Batches of one replica's size: those of the replicas that this input pipeline feeds."""
    replicas = context.num_replicas_in_sync
    if global_batch < 1 or global_batch % replicas:
        raise InputError(
            "global batch",
            received=global_batch,
            expected=f"a positive multiple of the {replicas} replicas",
            action=f"Set --config.global_batch={max(1, round(global_batch / replicas)) * replicas}.",
        )
    batches = records.batch(global_batch // replicas, drop_remainder=True)
    if context.num_input_pipelines == 1:
        return batches
    replicas_here = replicas // context.num_input_pipelines
    mine = context.input_pipeline_id
    numbered = batches.enumerate().filter(lambda number, _: number % replicas // replicas_here == mine)
    return numbered.map(lambda _, batch: batch)


def _mapped(batches: tf.data.Dataset, prepare: Callable[..., tuple]) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    # This module shards by itself; TensorFlow's own sharding would drop or repeat examples.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    mapped = batches.map(prepare, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return mapped.prefetch(tf.data.AUTOTUNE).with_options(options)

"""Serialized records of a dataset's split: once in stored order, or for ever in a seeded shuffled order.

The shuffled order is a pure function of (seed, epoch): nothing random is stateful, so a run that starts
again at a position sees exactly what it would have seen.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.manifest import Dataset, sha256

READ_BUFFER_BYTES = 1 << 20  # 1 MiB; the default of 256 KiB costs more system calls
SHARDS_AT_ONCE = 16
RECORDS_A_TURN = 16  # taken from each open shard before the next one's turn


def stored_order(dataset: Dataset, split: str) -> tf.data.Dataset:
    """Every record of `split` once, shard by shard: string []."""
    return _records(tf.data.Dataset.from_tensor_slices(_paths(dataset, split)))


def shuffled_order(dataset: Dataset, split: str, *, seed: int, position: int, window: int) -> tf.data.Dataset:
    """The endless training stream from `position` on: (index int64 [], record string []).

    Every epoch holds every record once, in an order of its own. `position` and `index` count records since
    the start of training, so epoch and offset follow from them.

    Args:
      window: records that are permuted together. The shards lie in a random order on disk already, so the
        window only has to make epochs differ.
    """
    records = dataset.records(split)
    first_epoch, offset = divmod(position, records)
    paths = tf.constant(_paths(dataset, split))

    def epoch_from(epoch: tf.Tensor, start: tf.Tensor) -> tf.data.Dataset:
        shards = tf.random.experimental.stateless_shuffle(paths, seed=tf.stack([seed, epoch]))
        ordered = _records(tf.data.Dataset.from_tensor_slices(shards))
        return _permute_windows(ordered, seed=seed, epoch=epoch, window=window).skip(start)

    rest_of_first = tf.data.Dataset.from_tensors(
        (tf.constant(first_epoch, tf.int64), tf.constant(offset, tf.int64))
    )
    later = tf.data.Dataset.range(first_epoch + 1, tf.int64.max).map(
        lambda epoch: (epoch, tf.constant(0, tf.int64))
    )
    return rest_of_first.concatenate(later).flat_map(epoch_from).enumerate(start=position)


@contextlib.contextmanager
def naming_damage(dataset: Dataset, split: str) -> Iterator[None]:
    """Turns TensorFlow's nameless DataLossError into an InputError that names the damaged shard."""
    try:
        yield
    except tf.errors.DataLossError as error:
        shards = dataset.manifest.splits[split]
        damaged = [shard.path for shard in shards if sha256(dataset.directory / shard.path) != shard.sha256]
        where = ", ".join(damaged) or "a shard"
        raise InputError(
            f"dataset {dataset.directory}, split '{split}'",
            received=f"damaged records in {where} ({error.message.splitlines()[0]})",
            expected="the bytes that were published, by the SHA-256 in the manifest",
            action="Restore the shard from a copy, or convert the raw data again.",
        ) from None


def _paths(dataset: Dataset, split: str) -> list[str]:
    if dataset.manifest.layout != "rows":
        raise InputError(
            f"dataset {dataset.directory}",
            received=f"layout '{dataset.manifest.layout}'",
            expected="layout 'rows', which is what training reads so far",
            action="Convert the raw data with --layout=rows.",
        )
    paths = dataset.shard_paths(split)
    if not paths:
        raise InputError(
            f"dataset {dataset.directory}, split '{split}'",
            received="no records",
            expected="at least one",
            action="Give the split a larger fraction with --splits, or choose another split.",
        )
    return paths


def _records(paths: tf.data.Dataset) -> tf.data.Dataset:
    return paths.interleave(
        lambda path: tf.data.TFRecordDataset(path, buffer_size=READ_BUFFER_BYTES),
        cycle_length=SHARDS_AT_ONCE,
        block_length=RECORDS_A_TURN,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def _permute_windows(
    records: tf.data.Dataset, *, seed: int, epoch: tf.Tensor, window: int
) -> tf.data.Dataset:
    """Permutes each run of `window` records; unlike `Dataset.shuffle`, keeps no state between elements."""

    def permute(number: tf.Tensor, run: tf.Tensor) -> tf.Tensor:
        order_seed = tf.random.fold_in(tf.stack([tf.cast(seed, tf.int64), epoch]), number)
        return tf.random.experimental.stateless_shuffle(run, seed=order_seed)

    return records.batch(window).enumerate().map(permute).unbatch()

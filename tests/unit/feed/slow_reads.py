"""Ways of reading that are slow."""

import functools
import pathlib
import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tests.unit.feed.pipelines import RAW_BYTES, RAW_RECORDS, Records, write_records

Passage = Callable[[tf.data.Dataset], tf.data.Dataset]  # what records pass on their way from the disk


def throttled(*, bytes_per_s: float) -> Passage:
    """Lets so many bytes of records through a second, like a disk or a network that gives no more."""

    def wait(rows: np.ndarray) -> np.bool_:
        time.sleep(sum(map(len, rows.ravel().tolist())) / bytes_per_s)
        return np.bool_(True)

    return lambda dataset: dataset.map(functools.partial(_after, wait), num_parallel_calls=1)


def delayed(*, seconds: float) -> Passage:
    """Every read takes so long before its first byte."""

    def wait(rows: np.ndarray) -> np.bool_:
        time.sleep(seconds)
        return np.bool_(True)

    return lambda dataset: dataset.map(functools.partial(_after, wait), num_parallel_calls=1)


def _after(wait: Callable[[np.ndarray], np.bool_], positions: tf.Tensor, rows: tf.Tensor) -> tuple:
    with tf.control_dependencies([tf.numpy_function(wait, [rows], tf.bool)]):
        return tf.identity(positions), tf.identity(rows)


def in_one_thread(folder: pathlib.Path) -> Records:
    """A map of one thread that checks every record."""
    path = write_records(folder, [bytes(RAW_BYTES)] * RAW_RECORDS)

    def check(record: tf.Tensor) -> tf.Tensor:
        digest = record
        for _ in tf.range(100):  # each of the one before, or TensorFlow would do it once
            digest = tf.strings.as_string(tf.strings.to_hash_bucket_strong(digest, 1 << 30, [1, 2]))
        return tf.strings.join([record, tf.strings.substr(digest, 0, 0)])

    return lambda: tf.data.TFRecordDataset(path).map(check, num_parallel_calls=1)


def python_generator() -> Records:
    record = bytes(RAW_BYTES)

    def rows() -> Iterator[bytes]:
        while True:
            sum(byte * byte for byte in record * 50)  # as if it were parsed here
            yield record

    return lambda: tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.string))


def tiny_shards(folder: pathlib.Path) -> Records:
    """One record a file."""
    paths = [write_records(folder / str(i), [bytes(RAW_BYTES)]) for i in range(RAW_RECORDS)]
    return lambda: tf.data.TFRecordDataset(paths)


def gzipped(folder: pathlib.Path) -> Records:
    path = write_records(folder, [bytes(range(256)) * 2_000] * 8, compression="GZIP")
    return lambda: tf.data.TFRecordDataset(path, "GZIP")

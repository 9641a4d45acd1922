"""Framing, against TensorFlow's writer."""

import pathlib

import tensorflow as tf

from beam_jobs import tfrecord


def test_same_bytes_as_tensorflow_writes(tmp_path: pathlib.Path):
    records = [b"", b"one", bytes(range(256)) * 300]
    path = tmp_path / "reference"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    assert tfrecord.frame(records) == path.read_bytes()

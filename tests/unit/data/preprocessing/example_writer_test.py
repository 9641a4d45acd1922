"""Records hold what they are made of, to the last byte."""

import numpy as np
import tensorflow as tf

from pipeline.data.preprocessing.requests import serialize
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema


def test_zeros_at_the_end_of_a_file_are_kept():
    data = b"a file\x80\0\0"
    schema = Schema(name="pictures", features=(Image(name="image"),))
    (record,) = serialize({"image": np.array([data], object)}, schema)
    (kept,) = tf.train.Example.FromString(record).features.feature["image"].bytes_list.value
    assert kept == data

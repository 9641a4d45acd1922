"""Where a block's rows lie follows from the schema, whatever the width of a row."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import blocks, tfrecord
from pipeline.data.dataset.tfrecord import FRAME_BYTES, HEADER_BYTES
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema


@pytest.mark.parametrize("length", [1, 2, 7, 64, 127, 128, 513, 9_001, 300_001])
def test_blocks_and_their_rows_start_at_multiples_of_the_width(length: int):
    schema = Schema(name="s", features=(Tokens(name="tokens", length=length, vocabulary_size=100),))
    frame, width = blocks.frame_of_schema(schema), 2 * length
    assert (HEADER_BYTES + frame.rows_at) % width == 0
    assert (frame.size + FRAME_BYTES) % width == 0


@pytest.mark.parametrize("length", [1, 513, 300_001])
def test_a_framed_block_is_an_example_with_its_rows_where_the_frame_says(length: int):
    schema = Schema(name="s", features=(Tokens(name="tokens", length=length, vocabulary_size=100),))
    frame = blocks.frame_of_schema(schema)
    rows = np.arange(frame.payload, dtype=np.uint8).tobytes()
    record = frame.head + rows + frame.tail
    features = tf.train.Example.FromString(record).features.feature
    assert features[blocks.ROWS].bytes_list.value[0] == rows == record[frame.rows_at :][: frame.payload]
    assert len(tfrecord.frame([record])) == frame.size + FRAME_BYTES

"""The offset of a time zone from UTC, looked up in a table inside the graph."""

from collections.abc import Sequence

import tensorflow as tf

from pipeline.data.schema.zone_changes import FOLDED_FROM, PERIOD


def offset_at(changes: Sequence[int], offsets: Sequence[int], seconds: tf.Tensor) -> tf.Tensor:
    """Seconds ahead of UTC, int64 [batch], at `seconds` since 1970, int64 [batch], of the clock of `changes`.

    `changes` are the `utc` or the `wall` of a `ZoneChanges`, `offsets` are its offsets.
    """
    past = tf.maximum(tf.constant(0, tf.int64), (seconds - FOLDED_FROM) // PERIOD)
    position = tf.searchsorted(tf.constant(changes, tf.int64), seconds - past * PERIOD, side="right")
    return tf.gather(tf.constant(offsets, tf.int64), position)

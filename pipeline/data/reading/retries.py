"""Retries failed reads after growing waits, and reports them; all in TensorFlow's C++."""

import functools
import sys
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base import files
from pipeline.base.tracing import tf_function

# Resources are found by name, not captured, so a dataset that uses them can be sent to another host, and
# counts there.
_REPORTED = [10**power for power in range(13)]
_LINE = "warning    a read failed, and is tried again: "
_ZERO = np.int64(0)
_COUNTS, _OFFSETS = "penstock_failed_reads", "penstock_failed_offsets"


def read_again(
    dataset: tf.data.Dataset,
    *,
    nothing: object,
    is_whole: Callable[[tf.Tensor], tf.Tensor],
    path: tf.Tensor,
    offset: tf.Tensor,
) -> tf.Tensor:
    """The one element of `dataset`.

    Args:
      nothing: a value of the element's dtype and rank that `is_whole` refuses.
      is_whole: function that says whether an element is complete.
      path, offset: where the read starts, string [] and int64 [].

    Raises, when the graph runs: what TensorFlow does, where the last try fails.
    """
    spec, waits_s = dataset.element_spec, tf.constant(files.RETRY_WAITS_S)

    @tf_function
    def again() -> tf.Tensor:
        def try_(tries: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.control_dependencies([note_failed(path, offset)]):
                wait_s = waits_s[tries]
            return tries + 1, first_or(_after(wait_s, dataset), nothing)

        tries, element = tf.while_loop(
            lambda tries, element: (tries < len(files.RETRY_WAITS_S)) & ~is_whole(element),
            try_,
            (tf.constant(0), tf.constant(nothing, spec.dtype)),
            shape_invariants=(tf.TensorShape([]), spec.shape),
        )
        del tries
        return tf.cond(is_whole(element), lambda: element, lambda: dataset.get_single_element())

    element = first_or(dataset, nothing)
    return tf.cond(is_whole(element), lambda: element, again)


def first_or(dataset: tf.data.Dataset, otherwise: object) -> tf.Tensor | tuple[tf.Tensor, ...]:
    """The first element of a dataset, or `otherwise` if reading it fails."""
    instead = tf.data.Dataset.from_tensors((_ZERO, otherwise))
    _, first = _numbered(0, dataset).ignore_errors().concatenate(instead).take(1).get_single_element()
    return first


def firsts(datasets: Sequence[tf.data.Dataset], last: object) -> tuple[tf.Tensor, tf.Tensor]:
    """The first element of each dataset, read one after the other; datasets whose reading fails are left out.

    Returns:
      The numbers of the datasets, int64 [n], ascending, and their elements, [n, …]. At the end come the
        number of all datasets, and `last`.
    """
    numbered = [_numbered(number, dataset).take(1) for number, dataset in enumerate(datasets)]
    all_ = np.int64(len(datasets))
    chain = functools.reduce(tf.data.Dataset.concatenate, numbered).ignore_errors()
    return chain.concatenate(tf.data.Dataset.from_tensors((all_, last))).batch(all_ + 1).get_single_element()


def _numbered(number: int, dataset: tf.data.Dataset) -> tf.data.Dataset:
    # Each dataset is asked for one element only: a file that does not open would be opened for ever. They are
    # zipped, because `choose_from_datasets`, which does the same, takes 0.9 ms.
    return tf.data.Dataset.zip(tf.data.Dataset.from_tensors(np.int64(number)), dataset)


def last_offset(path: str) -> int | None:
    """The offset at which a read of this file failed last, in this process."""
    found = tf.raw_ops.LookupTableFindV2(
        table_handle=_table(_OFFSETS), keys=[path], default_value=np.int64([-1])
    )
    offset = int(found[0])
    return None if offset < 0 else offset


def count(path: str) -> int:
    """Counts the reads of this file that failed so far, in this process."""
    found = tf.raw_ops.LookupTableFindV2(
        table_handle=_table(_COUNTS), keys=[path], default_value=np.int64([0])
    )
    return int(found[0])


def note_failed(path: tf.Tensor, offset: tf.Tensor) -> tf.Operation:
    """Counts a failed read; reports a file's first, tenth, hundredth, … failure.

    Args:
      path: the file, or words for what was read instead of one, string [].
      offset: byte in the file, int64 [].
    """
    counts = _table(_COUNTS)
    failed = 1 + tf.raw_ops.LookupTableFindV2(table_handle=counts, keys=path, default_value=_ZERO)
    kept = [
        tf.raw_ops.LookupTableInsertV2(table_handle=counts, keys=path, values=failed),
        tf.raw_ops.LookupTableInsertV2(table_handle=_table(_OFFSETS), keys=path, values=offset),
    ]

    def report() -> tf.Operation:
        parts = _LINE, path, " at byte ", offset, " (", failed, " so far)"
        line = tf.strings.join([part if isinstance(part, str) else _text(part) for part in parts])
        return tf.print(line, output_stream=sys.stderr)

    with tf.control_dependencies(kept):
        is_reported = tf.reduce_any(failed == tf.constant(_REPORTED, tf.int64))
        return tf.cond(is_reported, report, tf.no_op)


def _text(tensor: tf.Tensor) -> tf.Tensor:
    return tensor if tensor.dtype == tf.string else tf.strings.as_string(tensor)


def _table(name: str) -> tf.Tensor:
    return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name=name)


def _after(wait_s: tf.Tensor, dataset: tf.data.Dataset) -> tf.data.Dataset:
    variant = tf.raw_ops.SleepDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        sleep_microseconds=tf.cast(1e6 * wait_s, tf.int64),
        output_types=[dataset.element_spec.dtype],
        output_shapes=[dataset.element_spec.shape],
    )
    return tf.data.experimental.from_variant(variant, dataset.element_spec)

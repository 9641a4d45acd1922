"""How TensorFlow runs every pipeline of ours: in a fixed order, and with nothing that it tunes by itself."""

import tensorflow as tf

# Groups or batches that stand ready beside those that threads work on: one is taken while the next waits.
READY = 2

_ANY_CORES = 1 << 20  # TensorFlow takes no more than there are; by default it stops at 16


def dataset_options(operation_threads: int | None = None) -> tf.data.Options:
    """A fixed order, no sharding by TensorFlow, and as many calls of a map at once as there are cores.

    TensorFlow's tuning is off. It would give buffers up to half of the memory, and a pipeline that is closed
    would wait for its thread, which sleeps up to a minute: on one core, for 19 s after `train`'s last line.

    Args:
      operation_threads: threads that share one operation at most; None: as many as there are cores.
    """
    chosen = tf.data.Options()
    if operation_threads:
        chosen.threading.max_intra_op_parallelism = operation_threads
    chosen.deterministic = True
    chosen.autotune.enabled = False
    chosen.autotune.initial_parallelism = _ANY_CORES
    # The reader shards; TensorFlow would drop or repeat examples.
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen

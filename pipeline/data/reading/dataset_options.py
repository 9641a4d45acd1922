"""How TensorFlow runs the pipelines that read datasets: in a fixed order, and nothing is tuned meanwhile."""

import math

import tensorflow as tf

from pipeline.data.reading.host_cores import host_cores

# Groups or batches that stand ready beside those that threads work on: one is taken while the next waits.
READY = 2

_ANY_CORES = 1 << 20  # TensorFlow takes no more than the host has; by default it stops at 16


def dataset_options(operation_threads: int | None = None, *, is_served: bool = False) -> tf.data.Options:
    """A fixed order, no sharding by TensorFlow, and as many calls of a map at once as this process has cores.

    TensorFlow's tuning is off. It would give buffers up to half of the memory, and a pipeline that is closed
    would wait for its thread, which sleeps up to a minute: on one core, for 19 s after `train`'s last line.

    Args:
      operation_threads: threads that share one operation at most; None: as many as there are cores.
      is_served: it runs on another host, with as many calls as that one has cores.
    """
    chosen = tf.data.Options()
    if operation_threads:
        chosen.threading.max_intra_op_parallelism = operation_threads
    chosen.deterministic = True
    chosen.autotune.enabled = False
    # A container's quota counts: each call more holds a group of examples.
    chosen.autotune.initial_parallelism = _ANY_CORES if is_served else math.ceil(host_cores())
    # The reader shards; TensorFlow would drop or repeat examples.
    chosen.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return chosen

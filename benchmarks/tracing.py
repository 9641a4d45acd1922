r"""What tracing the training step of a deep model costs with several replicas; in CPU time.

  python -m benchmarks.tracing [--models=MobileNetV2,ResNet50,EfficientNetB0] [--replicas=1,2,4,8]

The models are those of keras.applications, as they are; the replicas are parts of this machine's CPU. Each
figure is of a process of its own: the CPU time of all its threads from the built model to the traced graph of
the inner loop. The exit code is 1 where so many replicas cost more than 1.5 times as many as one.

Hardware: any. Duration: on 2 cores 15 minutes.
"""

import concurrent.futures
import multiprocessing
import sys
import time
from collections.abc import Mapping, Sequence

from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

_MODELS = flags.DEFINE_list(
    "models", ["MobileNetV2", "ResNet50", "EfficientNetB0"], "Functions of keras.applications."
)
_REPLICAS = flags.DEFINE_list("replicas", ["1", "2", "4", "8"], "Numbers of replicas, 1 first.")

_MOST = 1.5  # times the replicas times the CPU time of one
_CLASSES, _IMAGE = 10, (32, 32, 3)  # neither changes the graph's size


def traced_s(name: str, replicas: int) -> float:
    """CPU seconds of tracing the inner loop around the step; once in a process, as it splits the CPU."""
    import keras
    import tensorflow as tf

    from pipeline.training.engine import strategy as strategy_lib
    from pipeline.training.engine.batches import distributed
    from pipeline.training.engine.replicas import adapt_to_replicas
    from pipeline.training.engine.step import inner_loop, train_step
    from pipeline.training.tasks.classification import Multiclass

    strategy = strategy_lib.create(logical_devices=replicas)
    with strategy.scope():
        image = keras.Input(_IMAGE, name="image")
        core = getattr(keras.applications, name)
        own = core(weights=None, input_shape=_IMAGE, classes=_CLASSES, classifier_activation=None)
        model = keras.Model({"image": image}, own(image))
        adapt_to_replicas(model, replicas=replicas)
        optimizer = keras.optimizers.AdamW(1e-3)
        optimizer.build(model.trainable_variables)
    step = train_step(model, optimizer, task=Multiclass(), global_batch=replicas)
    batch = {"image": tf.zeros((1, *_IMAGE))}, tf.zeros([1], tf.int32)
    batches = iter(distributed(strategy, lambda _: tf.data.Dataset.from_tensors(batch).repeat()))
    begun = time.process_time()
    inner_loop(strategy, step, batches, updated=model.trainable_variables)
    return time.process_time() - begun


def _in_a_process(name: str, replicas: int) -> float:
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawned) as pool:
        seconds = pool.submit(traced_s, name, replicas).result()
    print(f"{name}, {replicas} replicas: {seconds:.1f} s", file=sys.stderr, flush=True)
    return seconds


def row(name: str, found: Mapping[int, float]) -> tuple[str, bool]:
    """Returns a model's figures in a line, and whether all are within the limit; `found` by replicas."""
    one = found[min(found)]
    times = {count: seconds / one / count for count, seconds in found.items()}
    cells = [f"{count}: {seconds:.1f} s ({times[count]:.2f}×)" for count, seconds in found.items()]
    return f"{name:<16}" + "   ".join(cells), max(times.values()) <= _MOST


def main(argv: Sequence[str]) -> int:
    del argv
    print("CPU seconds by replicas, and how often that is the replicas times one's:")
    is_within = True
    for name in _MODELS.value:
        line, holds = row(name, {int(count): _in_a_process(name, int(count)) for count in _REPLICAS.value})
        print(line, flush=True)
        is_within = is_within and holds
    return not is_within


if __name__ == "__main__":
    app.run(main)

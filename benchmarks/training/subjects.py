"""Who trains: our loop, with its session; and Keras's `model.fit`. Each tells the time of a step."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from benchmarks.training.workloads import Workload
from pipeline.training.engine.batches import timed
from pipeline.training.engine.step import build_averages, inner_loop, train_step
from pipeline.training.loop.clock import Cadence, StepTimes
from pipeline.training.loop.outer import Session

Train = Callable[[int], float]  # runs a number of steps; returns the seconds of one step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a step runs, and the clock that times it: CPU time, or wall time on an accelerator."""

    strategy: tf.distribute.Strategy
    clock: Callable[[], float]


def this_processor() -> Place:
    """One device of the processor, and the CPU time of all its threads."""
    return Place(strategy=tf.distribute.OneDeviceStrategy("/CPU:0"), clock=time.process_time)


def ours(workload: Workload, *, steps_per_loop: int, place: Place | None = None) -> Train:
    """The session and the inner loop of a run, but no checkpoints, evaluations and reports."""
    place = place or this_processor()
    strategy, clock = place.strategy, place.clock
    with strategy.scope():
        model = workload.model()
        averages = build_averages(workload.ema, model)
    step = train_step(
        model,
        model.optimizer,
        task=workload.task,
        global_batch=workload.global_batch,
        averages=averages,
    )
    replicas = strategy.num_replicas_in_sync
    own = workload.batches.rebatch(workload.global_batch // replicas) if replicas > 1 else workload.batches
    batches, making = timed(strategy, lambda context: own)
    loop = inner_loop(
        strategy,
        step,
        iter(batches),
        updated=model.trainable_variables,
        making=making,
        on_steps=StepTimes().add,
    )

    def train(steps: int) -> float:
        session = Session(
            model,
            cadence=_cadence(workload, steps, steps_per_loop),
            checkpoints=_Nowhere(),
            callbacks=(),
            evaluate=lambda epoch: None,
            has_accuracy=True,
        )
        session.restore()
        before, begun = _done(model), clock()
        session.run(loop, report=lambda point: None)
        return (clock() - begun) / (_done(model) - before)

    return train


def fit(workload: Workload, *, steps_per_loop: int, place: Place | None = None) -> Train:
    """`model.fit` with steps_per_execution, the same loss and accuracy, and, but on a TPU, no strategy."""
    place = place or this_processor()
    is_tpu = isinstance(place.strategy, tf.distribute.TPUStrategy)
    with place.strategy.scope() if is_tpu else contextlib.nullcontext():
        model = workload.model()
        model.compile(
            optimizer=workload.optimizer(),
            loss=workload.loss,
            metrics=[workload.accuracy()],
            steps_per_execution=steps_per_loop,
            jit_compile=is_tpu,
        )

    def train(steps: int) -> float:
        epoch = _SecondEpoch(place.clock)
        model.fit(
            workload.batches, epochs=2, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[epoch]
        )
        return epoch.seconds_a_step

    return train


def _done(model: keras.Model) -> int:
    """Steps so far: `fit` rounds them up to whole loops."""
    return int(np.asarray(model.optimizer.iterations))


SUBJECTS: Mapping[str, Callable[..., Train]] = {"ours": ours, "fit": fit}


class _SecondEpoch(keras.callbacks.Callback):
    """Seconds of its steps; in the first `fit` makes an iterator. It asks for nothing after a batch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._before, self._begun = _done(self.model), self._clock()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds_a_step = (self._clock() - self._begun) / (_done(self.model) - self._before)


class _Nowhere:
    """Checkpoints that are not kept."""

    newest = 0

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None:
        pass

    def finish(self) -> None:
        pass

    def restore(self) -> tuple[int, Mapping]:
        return 0, {}


def _cadence(workload: Workload, steps: int, steps_per_loop: int) -> Cadence:
    return Cadence(
        records=np.iinfo(np.int64).max // 2,  # no epoch ends
        global_batch=workload.global_batch,
        total_steps=steps,
        steps_per_loop=steps_per_loop,
        log_every_steps=100,
        checkpoint_every_steps=steps,
    )

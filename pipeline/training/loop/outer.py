"""The outer loop: the devices run some steps, then the host logs, evaluates, calls back and saves."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import keras
import numpy as np

from pipeline.base.cli.signals import Interrupted
from pipeline.training.loop import callbacks as callbacks_lib
from pipeline.training.loop.bad_steps import Event, Guard, NotFiniteError, Watch
from pipeline.training.loop.clock import Cadence, Checkpoints, Tally
from pipeline.training.state.goodput import GoodputLog

Point = dict[str, object]  # a line of history.jsonl
InnerLoop = Callable[[int], Tally]  # runs a number of steps, from where its last call ended
Report = Callable[[Point], None]


class Session:
    """Trains from the latest checkpoint to the last step, or until a callback stops it.

    Call `restore`, then `run`.

    Args:
      evaluate: function (epoch, from 1) → validation metrics, or None where it is not due.
      asked_to_stop: function () → number of the signal that asks the run to save itself and end, or 0; the
        same in all processes that train together. It is called at every stop.
      averaged: makes a block within which the model has the weights that are evaluated, and that callbacks
        see between epochs.
      any_stops: function () → whether a callback asks to stop, 0 or 1, in any of the processes that train
        together; None: each process asks its own callbacks, which are the same in all.
      guard: decides what is done about a step whose loss is not finite.
      check_input: called before each log point and save; raises an error if the data that were read have
        changed.
      random: state of the draws that no layer of the model keeps; None: there are none.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        cadence: Cadence,
        checkpoints: Checkpoints,
        callbacks: Sequence[keras.callbacks.Callback],
        evaluate: Callable[[int], dict | None],
        has_accuracy: bool,
        asked_to_stop: Callable[[], int] = lambda: 0,
        averaged: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
        any_stops: Callable[[], int] | None = None,
        guard: Guard | None = None,
        check_input: Callable[[], None] = lambda: None,
        random: keras.Variable | None = None,
    ) -> None:
        self._model = model
        self._random = random
        self._cadence = cadence
        self._checkpoints = checkpoints
        self._callbacks = callbacks
        epochs = math.ceil(cadence.epochs(cadence.total_steps))
        self.hooks = keras.callbacks.CallbackList(
            list(callbacks), model=model, epochs=epochs, steps=cadence.steps_of_epoch, verbose=0
        )
        self._evaluate = evaluate
        self._has_accuracy = has_accuracy
        self._asked_to_stop = asked_to_stop
        self._averaged = averaged
        self._any_stops = any_stops
        self._check_input = check_input
        self._window = Tally()  # sums since the last log point
        self._epoch = Tally()
        self._metrics: Mapping[str, float] = {}  # validation metrics of the epoch that ends at this stop
        # Logs of the last epoch that ended in this process.
        self._last_logs: Mapping[str, float] | None = None
        self._step, self._saved = 0, {}
        self._was_stopped = False  # whether a callback stopped the run, the same in all processes
        self._watch = Watch(guard or Guard(), checkpoints)
        self.logged = 0  # the step of the last log point

    def restore(self) -> int:
        """Restores the latest checkpoint; returns the step that `run` starts from, 0 if there is none.

        Raises:
          InputError: the checkpoint does not fit the model.
        """
        self._step, self._saved = self._checkpoints.restore()
        self.logged = self._saved.get("logged", self._step)
        self._watch.begin(self._step, self._saved.get("bad_steps", ()))
        return self._step

    def run(self, inner_loop: InnerLoop, *, report: Report) -> int:
        """Runs to the end; returns the last step.

        Args:
          inner_loop: function of a number of steps; returns their sums.
          report: receives each log point.

        Raises:
          NotFiniteError: a loss, gradient or weight became infinite or not a number.
          Interrupted: the run was asked to stop; its state is saved.
        """
        self._model.stop_training = False
        self.hooks.on_train_begin()
        self._restore_session()  # comes after the hooks, which reset some callbacks
        if self._is_over(self._step):
            return self._step
        self.hooks.on_epoch_begin(self._cadence.epoch(self._step))
        while not self._is_over(self._step):
            self._step = self._advance(self._step, inner_loop, report)
        with self._averaged():
            self._end_hooks()
        self._save(self._step)  # comes after the hooks: EarlyStopping may just have put the best weights back
        if number := self._asked_to_stop():
            self._interrupt(number, self._step)
        self._checkpoints.finish()
        return self._step

    def _end_hooks(self) -> None:
        """Calls the last hooks. If a callback restores other weights, the metrics are no longer valid."""
        # Only where needed: weights may be gigabytes.
        may_differ = callbacks_lib.may_restore_weights(self._callbacks)
        before = self._model.get_weights() if may_differ else []
        self.hooks.on_train_end(self._last_logs)
        after = self._model.get_weights() if may_differ else []
        if not all(map(np.array_equal, before, after)):
            self._metrics = {}

    @property
    def bad_steps(self) -> Sequence[Event]:
        """Events of steps whose loss was not finite, since the run began."""
        return self._watch.events

    def _is_over(self, step: int) -> bool:
        return step >= self._cadence.total_steps or self._is_stopped()

    def _is_stopped(self) -> bool:
        """Returns whether a callback has asked to stop; all processes ask at the same points."""
        if self._any_stops and not self._was_stopped:
            self._was_stopped = self._model.stop_training = bool(self._any_stops())
        return self._model.stop_training

    def _advance(self, step: int, inner_loop: InnerLoop, report: Report) -> int:
        """Runs to the next stop; returns its step."""
        stop, number = self._cadence.next_stop(step), self._cadence.step_in_epoch(step)
        self.hooks.on_train_batch_begin(number)
        tally, rolled_back_to = self._watch.evaluated(inner_loop(stop - step), stop)
        # A checkpoint is saved wherever an epoch ends, so the callbacks have done nothing since.
        if rolled_back_to is not None:
            self._restore_sums(rolled_back_to)
        self._window += tally
        self._epoch += tally
        self.hooks.on_train_batch_end(number + stop - step - 1, self._averages(self._epoch))
        is_due = self._cadence.logs(stop) or self._is_stopped()
        if is_due and (self._window.counted or self._epoch.counted):
            self._check_input()
            report(self._point(stop))
        if self._is_over(stop):
            return stop  # the last step is saved once, after the last hooks
        signal = self._asked_to_stop()
        if signal or self._cadence.saves(stop):
            self._save(stop)
        if signal:
            self._interrupt(signal, stop)
        return stop

    def _interrupt(self, number: int, step: int) -> NoReturn:
        self._checkpoints.finish()
        raise Interrupted(number, f"saved at step {step:,}, from where the same command goes on")

    def _point(self, step: int) -> Point:
        """Returns the log point of `step`, with validation metrics where an epoch ends."""
        cadence = self._cadence
        # The epoch's mean stands in where every step since the last point was skipped or passed over.
        averages = self._averages(self._window if self._window.counted else self._epoch)
        point: Point = {
            "step": step,
            "epoch": cadence.epochs(step),
            "examples": cadence.position(step),
            **averages,
            "learning_rate": float(np.asarray(self._model.optimizer.learning_rate)),
            **self._window.speed(global_batch=cadence.global_batch),
        }
        self._window, self.logged, self._metrics = Tally(), step, {}
        # A callback that stops the run in the middle of an epoch ends that epoch, as in `fit`.
        is_end = cadence.ends_epoch(step) or self._is_stopped()
        validation = self._end_epoch(step) if is_end else None
        return point | ({"validation": validation} if validation else {})

    def _end_epoch(self, step: int) -> dict | None:
        """Evaluates and calls back; returns the validation metrics."""
        with self._averaged():
            return self._end_averaged_epoch(step)

    def _end_averaged_epoch(self, step: int) -> dict | None:
        epoch = self._cadence.epoch(step - 1)
        validation = self._evaluate(epoch + 1)
        numbers = {name: value for name, value in (validation or {}).items() if isinstance(value, float)}
        logs = self._averages(self._epoch) | {f"val_{name}": value for name, value in numbers.items()}
        self._epoch, self._metrics, self._last_logs = Tally(), logs, logs
        if validation:
            callbacks_lib.require_monitored(self._callbacks, logs)
        with callbacks_lib.without_warnings():
            self.hooks.on_epoch_end(epoch, logs)
        if not self._is_over(step):
            self.hooks.on_epoch_begin(self._cadence.epoch(step))
        return validation

    def _save(self, step: int) -> None:
        try:
            self._save_now(step)
        except NotFiniteError:  # a weight is not finite, although the losses were until now
            if not self._watch.rolls_back:
                raise
            self._watch.rolled_back(step - 1, step)
            self._metrics = {}  # the metrics were those of the spoiled weights
            self._save_now(step)

    def _save_now(self, step: int) -> None:
        self._check_input()
        state = {
            "callbacks": callbacks_lib.state(self._callbacks),
            "window": vars(self._window),
            "epoch": vars(self._epoch),
            "logged": self.logged,
            "bad_steps": self._watch.events,
            "stopped": bool(self._model.stop_training),
            **({} if self._random is None else {"random": np.asarray(self._random).tolist()}),
        }
        metrics = self._metrics if self.logged == step else {}
        self._checkpoints.save(step, state, metrics=metrics)

    def _restore_session(self) -> None:
        if self._saved:
            callbacks_lib.restore(self._callbacks, self._saved["callbacks"])
            self._restore_sums(self._saved)
            self._model.stop_training = self._saved["stopped"]

    def _restore_sums(self, saved: Mapping) -> None:
        self._window = Tally(**saved["window"] | {"bad": ()})
        self._epoch = Tally(**saved["epoch"] | {"bad": ()})
        if self._random is not None and "random" in saved:
            self._random.assign(saved["random"])

    def _averages(self, tally: Tally) -> dict[str, float]:
        return tally.averages(global_batch=self._cadence.global_batch, has_accuracy=self._has_accuracy)


# --- The first step of a process, which compiles, runs by itself and is timed.


Show = Callable[[float, float], None]  # seconds to trace the graph, seconds of the first step


def announce_first_step(
    build: Callable[[], InnerLoop],
    show: Show,
    *,
    times: GoodputLog,
    clock: Callable[[], float] = time.perf_counter,
) -> InnerLoop:
    """The inner loop that `build` traces. Its first call runs one step, calls `show`, then runs the rest.

    `times` counts the time of tracing, of the first step and of all others.
    """
    start = clock()
    with times.during("compile"):
        loop = build()
    traced = clock() - start
    is_first = True

    def run(steps: int) -> Tally:
        nonlocal is_first
        if not is_first:
            return train(steps)
        is_first = False
        with times.during("compile"):
            tally = loop(1)
        times.trained(1, waited=tally.input_wait_s, first=True)
        # The wait for the pipeline to start counts as start-up, as in the goodput log, and not as the wait of
        # a step.
        tally = dataclasses.replace(tally, seconds=tally.seconds - tally.input_wait_s, input_wait_s=0.0)
        show(traced, tally.seconds)
        return tally + train(steps - 1) if steps > 1 else tally

    def train(steps: int) -> Tally:
        with times.during("training"):
            tally = loop(steps)
        times.trained(steps, waited=tally.input_wait_s)
        return tally

    return run


# --- Checkpoints whose time is counted: the time that saving takes from the loop, not that of writing in the
# background.


class TimedCheckpoints:
    """Wraps `checkpoints`; `times` counts the seconds of saving, and of waiting for a save to end."""

    def __init__(self, checkpoints: Checkpoints, times: GoodputLog) -> None:
        self._checkpoints = checkpoints
        self._times = times

    @property
    def newest(self) -> int:
        return self._checkpoints.newest

    @property
    def blocked_s(self) -> Sequence[float]:
        return self._checkpoints.blocked_s

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None:
        with self._times.during("checkpoint"):
            self._checkpoints.save(step, session, metrics=metrics)
            self._times.saved(self._checkpoints.blocked_s[-1])

    def finish(self) -> None:
        with self._times.during("checkpoint"):
            self._checkpoints.finish()

    def restore(self) -> tuple[int, Mapping]:
        return self._checkpoints.restore()  # this counts as part of the start

"""The outer loop: gives the devices runs of steps; in between logs, evaluates, calls back and saves."""

import json
import math
from collections.abc import Callable, Sequence

import keras
import numpy as np

from pipeline.data.errors import InputError
from pipeline.training import callbacks as callbacks_lib
from pipeline.training.cadence import Cadence
from pipeline.training.checkpoint import Checkpoints
from pipeline.training.tally import Tally

Point = dict[str, object]  # a line of history.jsonl


class Session:
    """Trains from the restored step to the last one, or until a callback stops it.

    Args:
      evaluate: function (epoch, from 1) → validation metrics, or None where it is not due.
      report: receives each log point.
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        cadence: Cadence,
        checkpoints: Checkpoints,
        callbacks: Sequence[keras.callbacks.Callback],
        evaluate: Callable[[int], dict | None],
        report: Callable[[Point], None],
        has_accuracy: bool,
    ) -> None:
        self._model = model
        self._cadence = cadence
        self._checkpoints = checkpoints
        self._callbacks = callbacks
        epochs = math.ceil(cadence.epochs(cadence.total_steps))
        self._hooks = keras.callbacks.CallbackList(list(callbacks), model=model, epochs=epochs, verbose=0)
        self._evaluate = evaluate
        self._report = report
        self._has_accuracy = has_accuracy
        self._window = Tally()  # since the last log point
        self._epoch = Tally()

    def run(self, inner_loop: Callable[[int], Tally], *, step: int = 0, saved_state: str = "") -> int:
        """Runs from `step` on; returns the last step.

        Args:
          inner_loop: runs so many steps from where the last call left off.
          saved_state: what the checkpoint of `step` holds of this session.

        Raises:
          InputError: the loss became infinite or not a number.
        """
        self._model.stop_training = False
        self._hooks.on_train_begin()
        self._restore(saved_state)
        if self._is_over(step):
            return step
        self._hooks.on_epoch_begin(self._cadence.epoch(step))
        while not self._is_over(step):
            step = self._advance(inner_loop, step)
        self._hooks.on_train_end()
        self._save(step)  # again: EarlyStopping may just have put the best weights back
        return step

    def _is_over(self, step: int) -> bool:
        return step >= self._cadence.total_steps or self._model.stop_training

    def _advance(self, inner_loop: Callable[[int], Tally], step: int) -> int:
        stop = self._cadence.next_stop(step)
        self._hooks.on_train_batch_begin(step)
        tally = inner_loop(stop - step)
        self._window += tally
        self._epoch += tally
        self._hooks.on_train_batch_end(stop - 1, self._averages(tally))
        if self._cadence.logs(stop):
            self._log(stop)
        if self._cadence.saves(stop):
            self._save(stop)
        return stop

    def _log(self, step: int) -> None:
        cadence, averages = self._cadence, self._averages(self._window)
        _require_finite(averages["loss"], step)
        point: Point = {
            "step": step,
            "epoch": cadence.epochs(step),
            "examples": cadence.position(step),
            **averages,
            "learning_rate": float(np.asarray(self._model.optimizer.learning_rate)),
            **self._window.speed(global_batch=cadence.global_batch),
        }
        self._window = Tally()
        validation = self._end_epoch(step) if cadence.ends_epoch(step) else None
        self._report(point | ({"validation": validation} if validation else {}))

    def _end_epoch(self, step: int) -> dict | None:
        """Evaluates and calls back; returns the validation metrics."""
        epoch = self._cadence.epoch(step - 1)
        validation = self._evaluate(epoch + 1)
        numbers = {name: value for name, value in (validation or {}).items() if isinstance(value, float)}
        logs = self._averages(self._epoch) | {f"val_{name}": value for name, value in numbers.items()}
        self._epoch = Tally()
        self._hooks.on_epoch_end(epoch, logs)
        if not self._is_over(step):
            self._hooks.on_epoch_begin(self._cadence.epoch(step))
        return validation

    def _save(self, step: int) -> None:
        state = {
            "callbacks": callbacks_lib.state(self._callbacks),
            "epoch": vars(self._epoch),
            "stopped": bool(self._model.stop_training),
        }
        self._checkpoints.save(step, session_state=json.dumps(state))

    def _restore(self, saved_state: str) -> None:
        if saved_state:
            state = json.loads(saved_state)
            callbacks_lib.restore(self._callbacks, state["callbacks"])
            self._epoch = Tally(**state["epoch"])
            self._model.stop_training = state["stopped"]

    def _averages(self, tally: Tally) -> dict[str, float]:
        return tally.averages(global_batch=self._cadence.global_batch, has_accuracy=self._has_accuracy)


def _require_finite(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise InputError(
            f"loss before step {step}",
            received=loss,
            expected="a finite number",
            action="Lower --config.optimizer.learning_rate or try --precision=float32; "
            "the last checkpoint is from before.",
        )

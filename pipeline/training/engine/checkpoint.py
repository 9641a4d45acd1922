"""Checkpoints of a run: model, optimizer, random state, session, step. All or nothing.

No position of the input is saved: it is `step * global_batch`, and the input is a function of that.
"""

import pathlib
import shutil
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.training.engine import checkpoint_files
from pipeline.training.state import golden


class Checkpoints:
    """Saves and restores a run in `directory`.

    Args:
      golden_logits: function () → float32 [records, outputs], the model's logits of the golden records.
      worker: this process's number. Only the files of 0, the chief, count. The others save too, since saving
        may need all of them, but each into a directory of its own, which is deleted afterwards.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None = None,
        golden_logits: Callable[[], np.ndarray],
        keep: int = 3,
        worker: int = 0,
    ) -> None:
        self._model = model
        self._golden_logits = golden_logits
        self._golden = tf.Variable(tf.zeros_like(golden_logits()), trainable=False)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._session_state = tf.Variable("", trainable=False)
        self._directory = directory
        self._own = directory.with_name(f"{directory.name}.worker-{worker}") if worker else directory
        self._is_whole = optimizer is not None
        parts = {"optimizer": optimizer} if self._is_whole else {}
        self._checkpoint = tf.train.Checkpoint(
            model=model,
            # Keras keeps the random state of dropout out of what TensorFlow tracks (3.15, measured): a
            # resumed run would draw its first masks again.
            seeds=seed_states(model),
            step=self._step,
            session_state=self._session_state,
            golden=self._golden,
            **parts,
        )
        self._keep = keep
        self._manager: tf.train.CheckpointManager | None = None
        self.damaged: tuple[str, ...] = ()  # checkpoints that `restore` could not read, and why

    def save(self, step: int, *, session_state: str = "") -> None:
        """Saves the state after `step` steps; only the latest checkpoints are kept.

        Raises:
          InputError: a weight is not finite.
        """
        _require_finite(self._model, step)
        self._step.assign(step)
        self._session_state.assign(session_state)
        self._golden.assign(self._golden_logits())
        self._managed().save(checkpoint_number=step)
        if self._own != self._directory:
            shutil.rmtree(self._own, ignore_errors=True)

    def restore(self, *, up_to: int | None = None) -> tuple[int, str]:
        """Restores the newest sound checkpoint, of at most `up_to` steps; returns its step and session state.

        (0, "") if there is none. An older one is taken where the newest is damaged; `damaged` tells.

        Raises:
          InputError: all are damaged; or the checkpoint belongs to another model, or its predictions of the
            golden records differ from the saved ones.
        """
        for checkpoint in checkpoint_files.newest_first(self._directory, up_to=up_to):
            problem = self._try(checkpoint)
            if not problem:
                now = np.asarray(self._golden_logits())
                golden.check(saved=self._golden.numpy(), now=now, checkpoint=checkpoint)
                return int(self._step.numpy()), self._session_state.numpy().decode()
            self.damaged += (problem,)
        if self.damaged:
            raise self._all_are_damaged()
        return 0, ""

    def _try(self, checkpoint: str) -> str:
        """Restores it, or tells what is damaged; raises InputError where it is of another model."""
        try:
            status = self._checkpoint.restore(checkpoint)
            if self._is_whole:
                status.assert_consumed()
            else:
                status.assert_existing_objects_matched().expect_partial()
        except (AssertionError, ValueError, RuntimeError, tf.errors.OpError) as error:
            problem = checkpoint_files.damage(checkpoint)
            if problem:
                return problem
            raise InputError(
                f"checkpoint {checkpoint}",
                received=f"content that does not fit this model ({str(error).splitlines()[0]})",
                expected="variables of the same names and shapes",
                action="Train in an empty --workdir, or with the config that this one was started with.",
            ) from None
        return ""

    def _all_are_damaged(self) -> InputError:
        return InputError(
            f"checkpoints {self._directory}",
            received=f"damaged files ({'; '.join(self.damaged)})",
            expected="the files that the training run wrote there",
            action="Restore the files from a copy, or train in an empty --workdir.",
        )

    def _managed(self) -> tf.train.CheckpointManager:
        if self._manager is None:
            checkpoint_files.list_anew(self._own)
            self._manager = tf.train.CheckpointManager(
                self._checkpoint, str(self._own), max_to_keep=self._keep
            )
        return self._manager


def seed_states(model: keras.Model) -> list[tf.Variable]:
    """State variables of the model's random layers, in the model's order."""
    weights = {id(variable) for variable in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]


def _require_finite(model: keras.Model, step: int) -> None:
    """The loss does not always tell: with AVX-512, oneDNN's ReLU makes 0 of NaN (Eigen's does not)."""
    for variable in model.weights:
        value = tf.convert_to_tensor(variable.value)
        if value.dtype.is_floating and not tf.reduce_all(tf.math.is_finite(value)):
            raise InputError(
                f"weight {variable.path} after step {step}",
                received="values that are infinite or not a number",
                expected="finite numbers",
                action="Nothing was saved: the last checkpoint is from before. Lower "
                "--config.optimizer.learning_rate or try --precision=float32.",
            )

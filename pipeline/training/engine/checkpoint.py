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
from pipeline.training.state import golden


class Checkpoints:
    """Saves and restores a run in `directory`.

    Args:
      golden_logits: function () → float32 [records, outputs], the model's logits of the golden records.
      is_chief: whether this process's files count. The other processes save too, since saving may need all
        of them, but into a directory that is deleted afterwards.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None = None,
        golden_logits: Callable[[], np.ndarray],
        keep: int = 3,
        is_chief: bool = True,
    ) -> None:
        self._model = model
        self._golden_logits = golden_logits
        self._golden = tf.Variable(tf.zeros_like(golden_logits()), trainable=False)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._session_state = tf.Variable("", trainable=False)
        self._directory = directory
        self._own = directory if is_chief else directory.with_name(f"{directory.name}.not-chief")
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
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(self._own), max_to_keep=keep)

    def save(self, step: int, *, session_state: str = "") -> None:
        """Saves the state after `step` steps; only the latest checkpoints are kept.

        Raises:
          InputError: a weight is not finite.
        """
        _require_finite(self._model, step)
        self._step.assign(step)
        self._session_state.assign(session_state)
        self._golden.assign(self._golden_logits())
        self._manager.save(checkpoint_number=step)
        if self._own != self._directory:
            shutil.rmtree(self._own, ignore_errors=True)

    def restore(self) -> tuple[int, str]:
        """Restores the latest checkpoint; returns its step and session state, (0, "") if there is none.

        Raises:
          InputError: the checkpoint belongs to another model, or its predictions of the golden records
            differ from the saved ones.
        """
        latest = tf.train.latest_checkpoint(str(self._directory))
        if latest is None:
            return 0, ""
        try:
            status = self._checkpoint.restore(latest)
            if self._is_whole:
                status.assert_consumed()
            else:
                status.assert_existing_objects_matched().expect_partial()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise InputError(
                f"checkpoint {latest}",
                received=f"content that does not fit this model ({str(error).splitlines()[0]})",
                expected="variables of the same names and shapes",
                action="Train in an empty --workdir, or with the config that this one was started with.",
            ) from None
        golden.check(saved=self._golden.numpy(), now=np.asarray(self._golden_logits()), checkpoint=latest)
        return int(self._step.numpy()), self._session_state.numpy().decode()


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


def seed_states(model: keras.Model) -> list[tf.Variable]:
    """State variables of the model's random layers, in the model's order."""
    weights = {id(variable) for variable in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]

"""Restores the flat checkpoints of earlier versions, which are TensorFlow's own of a tree of objects."""

import dataclasses
import json

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.training.state.checkpoints.directory import Entry


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlatContent:
    """What a flat checkpoint holds besides model and optimizer."""

    session: dict
    golden: np.ndarray  # logits, float32 [records, outputs]


def restore(
    entry: Entry,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer | None,
    *,
    golden_like: np.ndarray,
) -> FlatContent:
    """Restores the model and, where there is one, the optimizer.

    Raises:
      DamagedError: a file is missing, or TensorFlow's checksums do not hold.
      InputError: it is of another model.
    """
    entry.check()
    golden = tf.Variable(tf.zeros_like(golden_like), trainable=False)
    session = tf.Variable("", trainable=False)
    checkpoint = tf.train.Checkpoint(
        model=model,
        seeds=_seed_states(model),
        step=tf.Variable(0, dtype=tf.int64, trainable=False),
        session_state=session,
        golden=golden,
        **({"optimizer": optimizer} if optimizer else {}),
    )
    try:
        status = checkpoint.restore(str(entry.path))
        if optimizer:
            status.assert_consumed()
        else:
            status.assert_existing_objects_matched().expect_partial()
    except (AssertionError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise InputError(
            f"checkpoint {entry.path}",
            received=f"content that does not fit this model ({str(error).splitlines()[0]})",
            expected="variables of the same names and shapes",
            action="Train in an empty --workdir, or with the config that this one was started with.",
        ) from None
    text = session.numpy().decode()
    return FlatContent(session=json.loads(text) if text else {}, golden=golden.numpy())


def _seed_states(model: keras.Model) -> list[tf.Variable]:
    """State variables of the model's random layers, in the model's order."""
    weights = {id(variable) for variable in model.weights}
    return [variable.value for variable in model.variables if id(variable) not in weights]

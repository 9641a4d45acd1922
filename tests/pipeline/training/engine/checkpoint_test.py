"""A checkpoint restores everything, or says that it does not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.training.engine.checkpoint import Checkpoints, seed_states

INPUT = tf.ones([2, 3])


def model_and_optimizer(units: int = 4) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    inputs = keras.Input((3,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(units)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def checkpoints(directory, model, optimizer=None, **settings) -> Checkpoints:
    return Checkpoints(
        directory,
        model=model,
        optimizer=optimizer,
        golden_logits=lambda: model(INPUT, training=False).numpy(),
        **settings,
    )


def train(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(INPUT, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)


def values(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> list[np.ndarray]:
    return [np.asarray(variable) for variable in [*model.variables, *optimizer.variables]]


def test_restores_weights_slots_random_state_and_session(tmp_path):
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    checkpoints(tmp_path, model, optimizer).save(7, session_state='{"a": 1}')
    other, other_optimizer = model_and_optimizer()
    assert checkpoints(tmp_path, other, other_optimizer).restore() == (7, '{"a": 1}')
    for restored, saved in zip(values(other, other_optimizer), values(model, optimizer), strict=True):
        np.testing.assert_array_equal(restored, saved)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_not_saved(tmp_path, value):
    model, optimizer = model_and_optimizer()
    checkpoints(tmp_path, model, optimizer).save(1)
    model.weights[0].assign(np.full([3, 4], value))
    with pytest.raises(
        InputError, match=r"^weight dense\S*/kernel after step 2: received values that are inf"
    ):
        checkpoints(tmp_path, model, optimizer).save(2)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("ckpt-1")


def test_dropout_goes_on_with_the_next_mask(tmp_path):
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    checkpoints(tmp_path, model, optimizer).save(1)
    other, other_optimizer = model_and_optimizer()
    checkpoints(tmp_path, other, other_optimizer).restore()
    assert len(seed_states(model)) == 1
    np.testing.assert_array_equal(model(INPUT, training=True), other(INPUT, training=True))


def test_model_alone_restores_without_an_optimizer(tmp_path):
    model, optimizer = model_and_optimizer()
    checkpoints(tmp_path, model, optimizer).save(7)
    other, _ = model_and_optimizer()
    assert checkpoints(tmp_path, other).restore() == (7, "")
    np.testing.assert_array_equal(model(INPUT), other(INPUT))


def test_nothing_saved_is_step_0(tmp_path):
    model, optimizer = model_and_optimizer()
    assert checkpoints(tmp_path, model, optimizer).restore() == (0, "")


def test_only_the_latest_are_kept(tmp_path):
    model, optimizer = model_and_optimizer()
    kept = checkpoints(tmp_path, model, optimizer, keep=2)
    for step in (1, 2, 3):
        kept.save(step)
    assert sorted(path.stem for path in tmp_path.glob("*.index")) == ["ckpt-2", "ckpt-3"]


def test_another_model_is_refused(tmp_path):
    checkpoints(tmp_path, *model_and_optimizer()).save(1)
    with pytest.raises(InputError, match=r"ckpt-1: received content that does not fit this model"):
        checkpoints(tmp_path, *model_and_optimizer(units=5)).restore()


def test_model_that_predicts_something_else_is_refused(tmp_path):
    model, optimizer = model_and_optimizer()
    checkpoints(tmp_path, model, optimizer).save(1)
    other, other_optimizer = model_and_optimizer()
    lossy = Checkpoints(
        tmp_path,
        model=other,
        optimizer=other_optimizer,
        golden_logits=lambda: other(INPUT, training=False).numpy() + 9.0,
    )
    with pytest.raises(InputError, match=r"predictions differ by 9 from those when it was saved"):
        lossy.restore()


def test_other_workers_leave_nothing_behind_and_each_others_files_alone(tmp_path):
    model, optimizer = model_and_optimizer()
    saving = tmp_path / "checkpoints.worker-2" / "part"  # another worker is in the middle of it
    saving.mkdir(parents=True)
    checkpoints(tmp_path / "checkpoints", model, optimizer, worker=1).save(1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints.worker-2"]
    assert saving.exists()


@pytest.fixture
def two_saved(tmp_path):
    """A directory with the checkpoints of steps 1 and 2."""
    saved = checkpoints(tmp_path, *model_and_optimizer())
    saved.save(1)
    saved.save(2)
    return tmp_path


@pytest.mark.parametrize("name", ["ckpt-2.index", "ckpt-2.data-00000-of-00001"])
def test_an_older_one_is_taken_where_the_newest_is_damaged(two_saved, name):
    flip(two_saved / name)
    model, optimizer = model_and_optimizer()
    restored = checkpoints(two_saved, model, optimizer)
    assert restored.restore()[0] == 1
    assert restored.damaged[0].startswith(f"{name}: ")
    restored.save(2)
    assert checkpoints(two_saved, *model_and_optimizer()).restore()[0] == 2
    flip(two_saved / name)
    assert checkpoints(two_saved, model).restore()[0] == 1  # without an optimizer too
    flip(two_saved / "ckpt-1.index")
    with pytest.raises(InputError, match=rf"damaged files \({name}: .*; ckpt-1.index: .*empty --workdir"):
        checkpoints(two_saved, *model_and_optimizer()).restore()


@pytest.mark.parametrize(("up_to", "step"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_the_newest_of_at_most_so_many_steps_is_taken(two_saved, up_to, step):
    assert checkpoints(two_saved, *model_and_optimizer()).restore(up_to=up_to)[0] == step


@pytest.mark.parametrize("content", [b"\xff", b'model_checkpoint_path: "ckpt-7"', b""])
def test_a_damaged_list_of_checkpoints_does_no_harm(two_saved, content):
    (two_saved / "checkpoint").write_bytes(content)
    restored = checkpoints(two_saved, *model_and_optimizer(), keep=2)
    assert restored.restore()[0] == 2
    restored.save(3)
    assert sorted(path.name for path in two_saved.glob("*.index")) == ["ckpt-2.index", "ckpt-3.index"]


def flip(path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)

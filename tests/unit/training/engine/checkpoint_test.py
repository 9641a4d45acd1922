"""A checkpoint restores everything, or says that it does not."""

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import LabelScale
from pipeline.training.engine.checkpoint import Checkpoints
from pipeline.training.state.checkpoints import Kept
from tests.shared.full_disk import no_room

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


def save(made: Checkpoints, step: int, session: dict) -> Checkpoints:
    """Saves, and waits until it is written."""
    made.save(step, session)
    made.finish()
    return made


def saved(directory, step: int = 1, **session) -> Checkpoints:
    """Saves a new model."""
    return save(checkpoints(directory, *model_and_optimizer()), step, session)


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_restores_weights_slots_random_state_and_session(tmp_path):
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    session = {"callbacks": [{"best": [np.arange(3.0), np.array(2, np.int64)]}], "stopped": False}
    save(checkpoints(tmp_path, model, optimizer), 7, session)
    other, other_optimizer = model_and_optimizer()
    step, restored = checkpoints(tmp_path, other, other_optimizer).restore()
    assert (step, restored["stopped"]) == (7, False)
    best = restored["callbacks"][0]["best"]
    np.testing.assert_array_equal(best[0], [0.0, 1.0, 2.0])
    assert (best[1].dtype, best[1].item()) == (np.int64, 2)
    for now, before in zip(values(other, other_optimizer), values(model, optimizer), strict=True):
        np.testing.assert_array_equal(now, before)


def test_the_loss_scale_is_restored(tmp_path):
    model, inner = model_and_optimizer()
    scaling = keras.optimizers.LossScaleOptimizer(inner, dynamic_growth_steps=1)
    scaling.build(model.trainable_variables)
    train(model, scaling)
    assert float(np.asarray(scaling.dynamic_scale)) == 2.0**16
    save(checkpoints(tmp_path, model, scaling), 1, {})
    other, other_inner = model_and_optimizer()
    restored = keras.optimizers.LossScaleOptimizer(other_inner, dynamic_growth_steps=1)
    restored.build(other.trainable_variables)
    checkpoints(tmp_path, other, restored).restore()
    for now, before in zip(values(other, restored), values(model, scaling), strict=True):
        np.testing.assert_array_equal(now, before)


def test_averages_of_weights_are_restored(tmp_path):
    averages = [tf.Variable([1.0, 2.0])]
    save(checkpoints(tmp_path, *model_and_optimizer(), ema=averages), 1, {})
    averages[0].assign([0.0, 0.0])
    checkpoints(tmp_path, *model_and_optimizer(), ema=averages).restore()
    np.testing.assert_array_equal(averages[0], [1.0, 2.0])


def test_what_changes_while_files_are_written_is_not_in_them(tmp_path):
    model, optimizer = model_and_optimizer()
    before = model.weights[0].numpy()
    made = checkpoints(tmp_path, model, optimizer)
    made.save(1, {})
    for variable in model.weights:  # in place, as a step does
        variable.value.assign_add(tf.ones_like(variable.value))
    made.finish()
    other, other_optimizer = model_and_optimizer()
    checkpoints(tmp_path, other, other_optimizer).restore()
    np.testing.assert_array_equal(other.weights[0], before)


def test_tensorflow_alone_reads_it(tmp_path):
    model, optimizer = model_and_optimizer()
    save(checkpoints(tmp_path, model, optimizer), 3, {})
    described = json.loads((tmp_path / "step-00000003" / "manifest.json").read_text())
    reader = tf.train.load_checkpoint(str(tmp_path / "step-00000003" / "variables"))
    assert described["variables"]["model/0000"] == model.variables[0].path
    np.testing.assert_array_equal(reader.get_tensor("model/0000"), model.variables[0])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["weight", "moment", "average"])
def test_a_value_that_is_not_finite_is_not_saved(tmp_path, value, where):
    model, optimizer = model_and_optimizer()
    average = tf.Variable([1.0, 2.0])
    made = checkpoints(tmp_path, model, optimizer, ema=[average])
    made.save(1, {})
    bad = {"weight": model.weights[0], "moment": optimizer.variables[-1], "average": average}[where]
    bad.assign(np.full(bad.shape, value))
    path = getattr(bad, "path", bad.name)
    message = rf"^weight {path} after step 2: received values that are inf.*newest checkpoint, of step 1, is"
    with pytest.raises(InputError, match=message):
        made.save(2, {})
    assert names(tmp_path) == ["step-00000001"]


def test_a_worker_whose_weight_is_not_finite_says_so_too(tmp_path):
    """It writes nothing, but would go on with the others."""
    model, optimizer = model_and_optimizer()
    made = checkpoints(tmp_path, model, optimizer, worker=1)
    model.weights[0].assign(np.full((3, 4), np.nan))
    with pytest.raises(
        InputError, match=r"^weight .* after step 5: received values that are inf.*Nothing is"
    ):
        made.save(5, {})


def test_large_values_whose_sum_overflows_are_finite(tmp_path):
    model, optimizer = model_and_optimizer()
    model.weights[0].assign(np.full([3, 4], 3e38))
    save(checkpoints(tmp_path, model, optimizer), 1, {})
    assert names(tmp_path) == ["step-00000001"]


def test_dropout_goes_on_with_the_next_mask(tmp_path):
    model, optimizer = model_and_optimizer()
    train(model, optimizer)
    save(checkpoints(tmp_path, model, optimizer), 1, {})
    other, other_optimizer = model_and_optimizer()
    checkpoints(tmp_path, other, other_optimizer).restore()
    np.testing.assert_array_equal(model(INPUT, training=True), other(INPUT, training=True))


def test_model_alone_restores_without_an_optimizer(tmp_path):
    model, optimizer = model_and_optimizer()
    save(checkpoints(tmp_path, model, optimizer), 7, {})
    other, _ = model_and_optimizer()
    assert checkpoints(tmp_path, other).restore() == (7, {})
    np.testing.assert_array_equal(model(INPUT), other(INPUT))


def test_nothing_saved_is_step_0(tmp_path):
    assert checkpoints(tmp_path / "none", *model_and_optimizer()).restore() == (0, {})


def test_the_newest_and_the_best_are_kept(tmp_path):
    made = checkpoints(tmp_path, *model_and_optimizer(), kept=Kept(number=2, metric="val_loss"))
    for step, loss in enumerate([3.0, 1.0, 1.0, 2.0, 4.0], 1):
        made.save(step, {}, metrics={"val_loss": loss})
    made.finish()
    assert names(tmp_path) == ["step-00000002", "step-00000004", "step-00000005"]
    best = checkpoints(tmp_path, model_and_optimizer()[0], kept=Kept(number=2, metric="val_loss"))
    assert best.restore(choice="best")[0] == 2
    assert best.restore(choice="4")[0] == 4


def test_another_model_is_refused(tmp_path):
    saved(tmp_path)
    with pytest.raises(
        InputError, match=r"step-00000001: received content that does not fit .*\[3, 4\] where"
    ):
        checkpoints(tmp_path, *model_and_optimizer(units=5)).restore()


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    save(checkpoints(tmp_path, *model_and_optimizer(), run={"dataset": "d1", "config": {"seed": 0}}), 1, {})
    for name, run in {
        "dataset": {"dataset": "d2", "config": {"seed": 0}},
        "seed": {"dataset": "d1", "config": {"seed": 1}},
    }.items():
        with pytest.raises(
            InputError, match=rf"step-00000001, {name}: received \w+; expected \w+, as in the run"
        ):
            checkpoints(tmp_path, *model_and_optimizer(), run=run).restore()


def test_model_that_predicts_something_else_is_refused(tmp_path):
    model, optimizer = model_and_optimizer()
    save(checkpoints(tmp_path, model, optimizer), 1, {})
    other, other_optimizer = model_and_optimizer()
    lossy = Checkpoints(
        tmp_path,
        model=other,
        optimizer=other_optimizer,
        golden_logits=lambda: other(INPUT, training=False).numpy() + 9.0,
    )
    with pytest.raises(InputError, match=r"predictions differ by 9 from those when it was saved"):
        lossy.restore()


def test_a_regression_in_millionths_is_judged_in_its_unit(tmp_path):
    model, optimizer = model_and_optimizer()
    model.layers[-1].kernel.assign(np.full((4, 1), 1e-7))
    save(checkpoints(tmp_path, model, optimizer), 1, {})
    other, _ = model_and_optimizer()
    lossy = Checkpoints(
        tmp_path,
        model=other,
        golden_logits=lambda: other(INPUT, training=False).numpy() + 1e-6,
        scale=LabelScale(spread=1e-6),
    )
    with pytest.raises(InputError, match=r"received a model whose predictions differ by 1e-06"):
        lossy.restore()


@pytest.mark.parametrize("worker", [1, 2])
def test_other_workers_write_nothing(tmp_path, worker):
    save(checkpoints(tmp_path / "checkpoints", *model_and_optimizer(), worker=worker), 1, {})
    assert names(tmp_path) == []


def test_other_workers_delete_nothing(tmp_path):
    saved(tmp_path)
    (tmp_path / "step-00000002.tmp").mkdir()  # which the chief may just be writing
    for worker in (1, 2):
        made = checkpoints(tmp_path, *model_and_optimizer(), worker=worker)
        assert made.restore()[0] == 1
        made.save(2, {})
        made.finish()
    assert names(tmp_path) == ["step-00000001", "step-00000002.tmp"]


# Within TensorFlow's files, and within the manifest: the names of layers give that 1,278 bytes or more.
@pytest.mark.parametrize("limit", [64, 1000])
def test_a_disk_that_is_full_ends_the_run_at_the_next_stop(tmp_path, limit):
    made = saved(tmp_path)
    with no_room(limit):
        made.save(2, {})
        with pytest.raises(InputError, match=r"a disk that is full.*the same command goes on from step 1\."):
            made.save(3, {})
    assert names(tmp_path) == ["step-00000001"]
    made.save(4, {})  # there is room again
    made.finish()
    assert names(tmp_path) == ["step-00000001", "step-00000004"]


def test_what_a_kill_left_half_written_is_swept_by_the_next_run_alone(tmp_path):
    saved(tmp_path)
    half = tmp_path / "step-00000002.tmp"
    half.mkdir()
    (half / "variables.index").write_bytes(b"half")
    assert checkpoints(tmp_path, model_and_optimizer()[0]).restore()[0] == 1
    assert half.exists()  # of a run that still writes, as far as an export knows
    assert checkpoints(tmp_path, *model_and_optimizer()).restore()[0] == 1
    assert names(tmp_path) == ["step-00000001"]


def test_none_is_ever_overwritten(tmp_path):
    made = saved(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made.save(1, {})
    with pytest.raises(InputError, match=r"an error when a checkpoint was written .*not empty"):
        made.finish()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_one_that_the_run_deletes_while_it_is_read_is_not_a_damaged_one(tmp_path):
    run = checkpoints(tmp_path, *model_and_optimizer(), kept=Kept(number=1))
    run.save(1, {})
    run.finish()
    export = checkpoints(tmp_path, model_and_optimizer()[0])
    for step in range(2, 30):
        run.save(step, {})  # in a thread, which then deletes the one before
        while run.newest < step:
            assert export.restore()[0] in (step - 1, step)
            assert export.damaged == ()
    run.finish()


@pytest.mark.parametrize(("up_to", "step"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_the_newest_of_at_most_so_many_steps_is_taken(tmp_path, up_to, step):
    saved(tmp_path, 1)
    saved(tmp_path, 2)
    assert checkpoints(tmp_path, *model_and_optimizer()).restore(up_to=up_to)[0] == step


# Whatever file of a checkpoint is damaged in whatever way: it is named, and an older one is taken.


def flipped(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


DAMAGE: Mapping[str, Callable[[pathlib.Path], object]] = {
    "flipped": flipped,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "a directory now": lambda path: (path.unlink(), path.mkdir()),
}
FILES = ("manifest.json", "session.json", "variables.data-00000-of-00001", "variables.index")


def opened(root: pathlib.Path, *, to_train: bool = True) -> Checkpoints:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    return Checkpoints(
        root,
        model=model,
        optimizer=optimizer if to_train else None,
        golden_logits=lambda: np.zeros([1, 1], np.float32),
    )


@pytest.fixture
def two_saved(tmp_path) -> pathlib.Path:
    """A directory with the checkpoints of steps 1 and 2."""
    made = opened(tmp_path)

    made.save(1, {"at": 1})
    made.save(2, {"at": 2})
    made.finish()
    return tmp_path


def contents(root: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def test_these_are_all_files(two_saved):
    assert tuple(sorted(path.name for path in (two_saved / "step-00000002").iterdir())) == FILES


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_an_older_one_is_taken_and_the_damaged_file_is_named(two_saved, name, how):
    DAMAGE[how](two_saved / "step-00000002" / name)
    before = contents(two_saved)
    to_use = opened(two_saved, to_train=False)
    assert to_use.restore() == (1, {"at": 1})
    assert to_use.damaged[0].startswith(f"step-00000002/{name}: ")
    assert contents(two_saved) == before  # an export changes nothing
    to_train = opened(two_saved)
    assert to_train.restore() == (1, {"at": 1})
    assert to_train.damaged == to_use.damaged
    to_train.save(2, {"at": "2 again"})  # there is room for it
    to_train.finish()
    assert opened(two_saved).restore() == (2, {"at": "2 again"})
    assert "step-00000002.damaged" not in {path.name for path in two_saved.iterdir()}


@pytest.mark.parametrize("how", ["an empty directory", "a file", "a link to nothing"])
def test_what_only_has_the_name_of_a_checkpoint_is_a_damaged_one(two_saved, how):
    path = two_saved / "step-00000002"
    shutil.rmtree(path)
    make = {
        "an empty directory": path.mkdir,
        "a file": path.touch,
        "a link to nothing": lambda: path.symlink_to("?"),
    }
    make[how]()
    made = opened(two_saved)
    assert made.restore() == (1, {"at": 1})
    assert made.damaged[0].startswith("step-00000002/manifest.json: ")
    made.save(2, {"at": "2 again"})
    made.finish()
    assert opened(two_saved).restore() == (2, {"at": "2 again"})
    assert sorted(each.name for each in two_saved.iterdir()) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("how", DAMAGE)
def test_where_all_are_damaged_nothing_is_changed(two_saved, how):
    for number, step in enumerate(("step-00000001", "step-00000002")):
        DAMAGE[how](two_saved / step / FILES[number])
    before = contents(two_saved)
    message = rf"damaged files \(step-00000002/{FILES[1]}: .*; step-00000001/{FILES[0]}: .*empty --workdir"
    for to_train in (True, False):
        with pytest.raises(InputError, match=message):
            opened(two_saved, to_train=to_train).restore()
    assert contents(two_saved) == before


def test_what_was_set_aside_still_counts_as_something_that_is_there(two_saved):
    flipped(two_saved / "step-00000002" / FILES[0])
    opened(two_saved).restore()
    flipped(two_saved / "step-00000001" / FILES[0])
    with pytest.raises(
        InputError, match=r"step-00000001/manifest.json: .*; step-00000002.damaged: set aside"
    ):
        opened(two_saved).restore()


def test_one_that_is_asked_for_by_its_step_is_not_replaced_by_another(two_saved):
    flipped(two_saved / "step-00000002" / FILES[2])
    message = rf"damaged files \(step-00000002/{FILES[2]}.*, or take --checkpoint=last\."
    with pytest.raises(InputError, match=message):
        opened(two_saved, to_train=False).restore(choice="2")

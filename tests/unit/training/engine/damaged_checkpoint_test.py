"""Whatever file of a checkpoint is damaged in whatever way: it is named, and an older one is taken."""

import pathlib
import shutil
from collections.abc import Callable, Mapping

import keras
import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.training.engine.checkpoint import Checkpoints


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


def checkpoints(root: pathlib.Path, *, to_train: bool = True) -> Checkpoints:
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
    made = checkpoints(tmp_path)

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
    to_use = checkpoints(two_saved, to_train=False)
    assert to_use.restore() == (1, {"at": 1})
    assert to_use.damaged[0].startswith(f"step-00000002/{name}: ")
    assert contents(two_saved) == before  # an export changes nothing
    to_train = checkpoints(two_saved)
    assert to_train.restore() == (1, {"at": 1})
    assert to_train.damaged == to_use.damaged
    to_train.save(2, {"at": "2 again"})  # there is room for it
    to_train.finish()
    assert checkpoints(two_saved).restore() == (2, {"at": "2 again"})
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
    made = checkpoints(two_saved)
    assert made.restore() == (1, {"at": 1})
    assert made.damaged[0].startswith("step-00000002/manifest.json: ")
    made.save(2, {"at": "2 again"})
    made.finish()
    assert checkpoints(two_saved).restore() == (2, {"at": "2 again"})
    assert sorted(each.name for each in two_saved.iterdir()) == ["step-00000001", "step-00000002"]


@pytest.mark.parametrize("how", DAMAGE)
def test_where_all_are_damaged_nothing_is_changed(two_saved, how):
    for number, step in enumerate(("step-00000001", "step-00000002")):
        DAMAGE[how](two_saved / step / FILES[number])
    before = contents(two_saved)
    message = rf"damaged files \(step-00000002/{FILES[1]}: .*; step-00000001/{FILES[0]}: .*empty --workdir"
    for to_train in (True, False):
        with pytest.raises(InputError, match=message):
            checkpoints(two_saved, to_train=to_train).restore()
    assert contents(two_saved) == before


def test_what_was_set_aside_still_counts_as_something_that_is_there(two_saved):
    flipped(two_saved / "step-00000002" / FILES[0])
    checkpoints(two_saved).restore()
    flipped(two_saved / "step-00000001" / FILES[0])
    with pytest.raises(
        InputError, match=r"step-00000001/manifest.json: .*; step-00000002.damaged: set aside"
    ):
        checkpoints(two_saved).restore()


def test_one_that_is_asked_for_by_its_step_is_not_replaced_by_another(two_saved):
    flipped(two_saved / "step-00000002" / FILES[2])
    message = rf"damaged files \(step-00000002/{FILES[2]}.*, or take --checkpoint=last\."
    with pytest.raises(InputError, match=message):
        checkpoints(two_saved, to_train=False).restore(choice="2")

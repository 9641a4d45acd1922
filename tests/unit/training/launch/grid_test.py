"""The text of --sweep becomes points, and each point a config."""

import pytest

from pipeline.base.cli.config import swept
from pipeline.base.errors import InputError
from pipeline.configs import tabular
from pipeline.training.launch.grid import Point, check_given_once, points


def values(text: str) -> list[dict]:
    return [dict(point.values) for point in points(text)]


def test_every_combination_is_a_point_and_the_last_key_changes_fastest():
    assert values("config.optimizer.learning_rate=1e-3,3e-3; config.seed=0,1") == [
        {"optimizer.learning_rate": "1e-3", "seed": "0"},
        {"optimizer.learning_rate": "1e-3", "seed": "1"},
        {"optimizer.learning_rate": "3e-3", "seed": "0"},
        {"optimizer.learning_rate": "3e-3", "seed": "1"},
    ]


def test_a_comma_in_brackets_belongs_to_a_value():
    (small, large) = points("--config.model.hidden=(64,32),(256,)")
    assert [point.values["model.hidden"] for point in (small, large)] == ["(64,32)", "(256,)"]
    assert swept(tabular.get_config(), small.values).model.hidden == (64, 32)
    assert swept(tabular.get_config(), large.values).model.hidden == (256,)


def test_brackets_in_brackets_belong_to_a_value():
    mixture = "(('b','train',1.0),('c','train',2.0))"
    (mixed, alone) = points(f"config.mixture={mixture},()")
    assert (mixed.values["mixture"], alone.values["mixture"]) == (mixture, "()")
    made = swept(tabular.get_config(), mixed.values).mixture
    assert made == (("b", "train", 1.0), ("c", "train", 2.0))


def test_values_take_the_types_of_the_config_and_leave_it_as_it_was():
    config = tabular.get_config()
    (point,) = points(
        "config.train.epochs=2;config.train.jit_compile=true;config.seed=7;config.optimizer.name=sgd"
    )
    made = swept(config, point.values)
    assert (made.train.epochs, made.train.jit_compile, made.seed, made.optimizer.name) == (
        2.0,
        True,
        7,
        "sgd",
    )
    assert (config.train.epochs, config.seed) == (10.0, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed=1,2", "received seed=1,2; expected config.KEY=VALUE"),
        ("config.seed", "received config.seed; expected"),
        ("config.seed=", "expected config.KEY=VALUE"),
        ("config.seed=1,,2", "expected config.KEY=VALUE"),
        ("config.=1", "expected config.KEY=VALUE"),
        (" ; ;", "received no key"),
        ("config.seed=1;config.seed=2", "config.seed twice"),
        ("config.seed=1,1", "config.seed=1 twice"),
        (";".join(f"config.a{n}=1,2" for n in range(64)), "more than 1,000 combinations"),
    ],
)
def test_what_is_no_sweep_is_told(text: str, told: str):
    with pytest.raises(InputError, match=r"--sweep") as raised:
        points(text)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config.optimizer.learning_rat=1", "Did you mean config.optimizer.learning_rate"),
        ("config.seed=one", "config.seed=one"),
        ("config.train.epochs=many", "config.train.epochs=many"),
    ],
)
def test_a_value_that_the_config_cannot_have_is_told(text: str, told: str):
    (point,) = points(text)
    with pytest.raises(InputError) as raised:
        swept(tabular.get_config(), point.values)
    assert told in str(raised.value)


def test_names_of_directories_differ_and_hold_nothing_odd():
    odd = [
        {"a": "x/y"},
        {"a": "x_y"},
        {"a": "../.."},
        {"a": "é" * 200},
        {"a": "e" * 200},
        {"a": "1", "b": "2"},
        {"a": "1,b=2"},
        {"a": "x y"},
        {"a": "x;y"},
    ]
    names = [Point(values=values).name for values in odd]
    assert all("/" not in name and name.isascii() and len(name) < 140 for name in names)
    assert len({*names[:5], *names[7:]}) == 7


def test_a_key_that_is_also_set_is_told():
    (point,) = points("config.seed=1")
    check_given_once(["--config=x.py", "--config.seedling=1"], point)
    with pytest.raises(InputError, match=r"--config.seed: received a value, and several in --sweep"):
        check_given_once(["--config=x.py", "--config.seed=3"], point)

"""The nearest name is that which a person meant."""

import pytest

from pipeline.base.errors import did_you_mean, nearest

FLAGS = (
    "dataset",
    "workdir",
    "config.global_batch",
    "config.image_size",
    "config.evaluation.global_batch",
    "config.optimizer.learning_rate",
    "config.train.epochs",
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("datset", "dataset"),
        ("batch_size", "config.global_batch"),
        ("lr", "config.optimizer.learning_rate"),
        ("learning_rate", "config.optimizer.learning_rate"),
        ("epochs", "config.train.epochs"),
        ("config.trian.epochs", "config.train.epochs"),
        ("verbosity", None),
    ],
)
def test_flags(given: str, meant: str | None):
    assert nearest(given, FLAGS) == meant


@pytest.mark.parametrize(
    ("given", "meant"), [("vaildation", "validation"), ("val", "validation"), ("Test", "test"), ("x", None)]
)
def test_splits(given: str, meant: str | None):
    assert nearest(given, ("train", "validation", "test")) == meant


def test_without_names_none_is_near():
    assert nearest("any", ()) is None


def test_an_error_says_what_to_do_otherwise():
    assert did_you_mean("tset", ["test"], otherwise="Name a split.") == "Did you mean 'test'?"
    assert did_you_mean("x", ["test"], otherwise="Name a split.") == "Name a split."

"""A config is held against the shared one, setting by setting."""

import pytest
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.configs.retraining import base
from pipeline.retraining.settings import check_types


def config_with(key, value):
    config = base.get_config()
    group, _, name = key.rpartition(".")
    target = config[group] if group else config
    with target.ignore_type():
        target[name] = value
    return config


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("window.last", "3", "a whole number"),
        ("window.last", 1.5, "a whole number"),
        ("window.last", True, "a whole number"),
        ("keep.versions", float("inf"), "a whole number"),
        ("holdout.most_seen", float("nan"), "a finite number"),
        ("drift.hold", float("inf"), "a finite number"),
        ("triggers.drift", None, "a finite number"),
        ("window.end", 20261101, "a text"),
        ("name", "\ud800", "a text"),
        ("notify.command", "a\0b", "a text"),
        ("spans.exclude", "2026-11-09", "texts, such as"),
        ("train.flags", (1,), "texts, such as"),
        ("window", 3, "a group of settings"),
        ("window", ConfigDict(), r"window.end: received nothing; expected a value"),
        ("window.lats", 3, r"window.lats: .* Did you mean .*last"),
        ("gaet", 3, r"config.gaet: "),
    ],
)
def test_what_is_no_setting_of_that_type_is_named(key, value, named):
    with pytest.raises(InputError, match=rf"config\.{key}.*{named}|{named}"):
        check_types(config_with(key, value).to_dict(), base.get_config().to_dict())


def test_a_whole_number_beyond_all_floats_is_named():
    config = base.get_config()
    config.triggers = ConfigDict({**config.triggers.to_dict(), "age_days": 10**400})
    with pytest.raises(InputError, match=r"config\.triggers\.age_days: .* a finite number"):
        check_types(config.to_dict(), base.get_config().to_dict())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("drift.hold", 1),
        ("window.last", 10**30),
        ("spans.exclude", ["a"]),
        ("name", "ünï"),
        ("gate.margin", "x"),
    ],
)
def test_what_can_be_meant_passes(key, value):
    check_types(config_with(key, value).to_dict(), base.get_config().to_dict())

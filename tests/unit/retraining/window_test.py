"""Which spans are trained on, and which judge."""

import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.retraining.datasets import Span
from pipeline.retraining.plan import choose_window
from pipeline.retraining.spans import RawSpan
from tests.unit.retraining.settings_test import parsed


def span(name, unusable=""):
    raw = RawSpan(name=name, path=pathlib.Path(name), files=1, size=1, digest=name, content=name)
    return Span(name=name, fingerprint=f"f{name}", raw=raw, unusable=unusable, result=None)


def chosen(names, *, bad=(), **keys):
    settings = parsed(**{key.replace("_", "__", 1): value for key, value in keys.items()})
    window = choose_window([span(name, "broken" if name in bad else "") for name in names], settings)
    return (
        "".join(each.name for each in window.training),
        "".join(each.name for each in window.holdout),
        window,
    )


@pytest.mark.parametrize(
    ("names", "keys", "training", "holdout"),
    [
        ("abcd", {}, "abc", "d"),
        ("abcd", {"holdout_last": 2}, "ab", "cd"),
        ("abcde", {"window_last": 2}, "cd", "e"),
        ("abcde", {"window_start": "b", "window_end": "d"}, "bc", "d"),
        ("abcde", {"window_start": "bb"}, "cd", "e"),
        ("abcd", {"bad": "d"}, "ab", "c"),
        ("abcd", {"bad": "c", "window_last": 1}, "b", "d"),
        ("abcd", {"holdout_kind": "split"}, "abcd", "abcd"),
        ("abcd", {"holdout_kind": "split", "window_last": 3}, "bcd", "bcd"),
    ],
)
def test_the_newest_spans_judge_what_the_ones_before_them_teach(names, keys, training, holdout):
    found = chosen(names, **keys)
    assert found[:2] == (training, holdout)
    assert not found[2].missing


@pytest.mark.parametrize(
    ("names", "keys", "missing"),
    [
        ("", {}, "no spans can be used; 1 to train on and 1 behind them to evaluate with are needed"),
        ("a", {}, "1 span can be used; 1 to train on and 1 behind them to evaluate with are needed"),
        ("ab", {"holdout_last": 5}, "2 spans can be used; 1 to train on and 5 behind them"),
        ("abc", {"window_least": 3}, "3 spans can be used; 3 to train on and 1 behind"),
        ("a", {"bad": "a", "holdout_kind": "split"}, "no spans can be used; 1 to train on are needed"),
    ],
)
def test_too_few_spans_are_told(names, keys, missing):
    assert chosen(names, **keys)[2].missing.startswith(missing)


def test_what_cannot_be_used_is_told():
    assert [each.name for each in chosen("abcd", bad="bc")[2].left_out] == ["b", "c"]


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(InputError, match=r"config\.window\.start: received 'b', which is behind"):
        chosen("ab", window_start="b", window_end="a")


def test_a_span_that_teaches_and_judges_is_read_once():
    assert len(chosen("ab", holdout_kind="split")[2].spans) == 2

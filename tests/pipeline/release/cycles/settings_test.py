"""Values of a config that cannot be meant are named."""

import pytest

from pipeline.configs.retraining import base
from pipeline.data.errors import InputError
from pipeline.release.cycles import settings
from tests.pipeline.release.cycles.conftest import COMMANDS


def parsed(**keys):
    config = base.get_config()
    with config.unlocked():
        for key, value in keys.items():
            group, _, name = key.partition("__")
            target = config[group] if name else config
            target[name or group] = value
    return settings.parse(config, COMMANDS)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"spans__unusable": "ignore"}, r"config\.spans\.unusable: received 'ignore'; expected skip or stop"),
        ({"holdout__kind": "test"}, r"config\.holdout\.kind"),
        ({"train__start": "warm"}, r"config\.train\.start: received 'warm'; expected scratch or champion"),
        ({"train__config": "nowhere.py"}, r"config\.train\.config"),
        ({"triggers__cron": "every day"}, r"config\.triggers\.cron.*0 3"),
        ({"window__last": -1}, r"config\.window\.last: received -1; expected a number from 0 on"),
        ({"keep__versions": 0}, r"config\.keep\.versions"),
        ({"infra__speed": 1}, r"config\.infra\.speed"),
        ({"parity__rows": 0}, "rows"),
        ({"gate__rule": "best"}, "rule"),
        ({"gate__slice": ("a",)}, "slice"),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(keys, named):
    with pytest.raises(InputError, match=named):
        parsed(**keys)


def test_defaults_can_be_meant():
    assert parsed().gate.rule == "superiority"


def test_only_what_changes_a_cycle_changes_its_digest():
    same = parsed(notify__command="mail", keep__versions=9, triggers__cron="0 3 * * *")
    assert parsed().digest() == same.digest()
    for keys in (
        {"train__flags": ("--config.seed=1",)},
        {"gate__margin": 0.1, "gate__rule": "non_inferiority"},
        {"holdout__most_seen": 0.5},
        {"train__config": "pipeline/configs/taxi_wide_deep.py"},
    ):
        assert parsed(**keys).digest() != parsed().digest()


def test_a_window_that_ends_elsewhere_leaves_the_settings_as_they_are():
    before = parsed()
    assert settings.ending_at(before, "2026-11-02").config.window.end == "2026-11-02"
    assert before.config.window.end == ""

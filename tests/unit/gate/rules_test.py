"""Rules from a config, and what cannot be one."""

import json

import pytest
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.gate.rules import GateRules


def test_rules_come_from_a_dict_or_a_config():
    given = {"metric": "auc", "slices": ["city"], "floors": {"auc": 0.7}, "least_slice": 300}
    expected = GateRules(metric="auc", slices=("city",), floors={"auc": 0.7}, least_slice=300)
    assert GateRules.of(given) == GateRules.of(ConfigDict(given)) == expected
    assert GateRules.of({}) == GateRules()
    assert json.loads(json.dumps(expected.to_json()))["floors"] == {"auc": 0.7}


def test_small_steps_down_end_at_twice_the_margin_below_the_anchor():
    rules = GateRules(rule="non_inferiority", margin=0.005)
    assert rules.allowed_below_champion == 0.005
    assert rules.allowed_below_anchor == 0.01
    assert GateRules(anchor_margin=0.02).allowed_below_anchor == 0.02
    assert GateRules().allowed_below_anchor == GateRules().allowed_below_champion == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"confidense": 0.9},
            "received 'confidense'; expected some of metric, .* Did you mean 'confidence'?",
        ),
        ({"metric": "logloss"}, "rule 'metric' of the gate: received 'logloss'; .*Did you mean 'log_loss'?"),
        ({"rule": "better"}, "expected 'superiority' or 'non_inferiority'"),
        ({"rule": "non_inferiority"}, "rule 'margin' .* received 0.0; .* above 0"),
        ({"margin": 0.1}, "expected 0 where the rule is 'superiority'"),
        ({"margin": -0.1}, "rule 'margin' .* received -0.1; expected a number from 0 on"),
        ({"margin": "0.1"}, "received '0.1'"),
        ({"slice_margin": float("nan")}, "rule 'slice_margin' .* received nan"),
        ({"slice_margin": None}, "rule 'slice_margin' .* received None"),
        ({"anchor_margin": float("inf")}, "rule 'anchor_margin' .* received inf"),
        ({"confidence": 95}, "received 95; expected a number above 0.5 and below 1"),
        ({"confidence": True}, "received True"),
        ({"power": 0.5}, "rule 'power'"),
        ({"least_slice": 0.5}, "rule 'least_slice' .* received 0.5; expected a whole number from 2 on"),
        ({"least_rows": True}, "received True"),
        ({"resamples": 10}, "expected a whole number from 100 on"),
        ({"seed": -1}, "rule 'seed'"),
        ({"slices": "city"}, "received 'city'; expected a list of names"),
        ({"slices": ("city", "city")}, "'city' twice"),
        ({"clustered_by": None}, "rule 'clustered_by'"),
        ({"floors": {"acuracy": 0.9}}, "received 'acuracy'; .*Did you mean 'accuracy'?"),
        ({"floors": {"accuracy": "high"}}, "rule 'floors.accuracy' .* received 'high'"),
        ({"floors": 0.9}, "received 0.9; expected metrics with a number each"),
    ],
)
def test_what_cannot_be_a_rule_is_named(given, message):
    with pytest.raises(InputError, match=message):
        GateRules.of(given)

"""The demo's config of retraining is one, as far as its types, keys and files go."""

import pathlib

from demo.retraining import get_config
from pipeline.configs.retraining import base
from pipeline.retraining import settings


def test_the_config_is_complete(monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parents[3])
    commands = settings.Commands(convert="", train="", export="")
    parsed = settings.parse(get_config().to_dict(), commands, like=base.get_config().to_dict())
    assert (parsed.gate.rule, parsed.gate.margin) == ("non_inferiority", 0.02)

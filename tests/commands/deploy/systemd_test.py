"""The unit calls the real command, calls again after 75 only, and makes a failure of the rest."""

import configparser

import pytest

from tests.commands.deploy import recipes


@pytest.fixture
def root(tmp_path):
    recipes.on_hold(tmp_path / "taxi")
    return tmp_path / "taxi"


def unit(name: str, root) -> configparser.ConfigParser:
    """A unit without repeated keys reads as an INI file."""
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.optionxform = str
    parsed.read_string(recipes.filled(f"systemd/{name}", recipes.settings(root)))
    return parsed


def test_its_command_is_answered(root):
    service = unit("penstock-retrain.service", root)["Service"]
    words = recipes.words(service["ExecStart"])
    assert words[0] == f"{service['WorkingDirectory']}/.venv/bin/python"
    assert recipes.answers(words).returncode == 0
    with recipes.busy(root):
        assert recipes.answers(words).returncode == recipes.AGAIN


def test_exit_codes(root):
    parsed = unit("penstock-retrain.service", root)
    service = parsed["Service"]
    assert service["RestartForceExitStatus"] == str(recipes.AGAIN)
    assert set(map(int, service["RestartPreventExitStatus"].split())) == set(recipes.TOLD)
    assert "SuccessExitStatus" not in service  # so each code but 0 is a failure, which OnFailure tells
    assert parsed["Unit"]["OnFailure"] == "tell.service"


def test_75_ends_as_a_failure_some_time(root):
    parsed = unit("penstock-retrain.service", root)
    limit = parsed["Unit"]
    seconds = int(limit["StartLimitBurst"]) * int(parsed["Service"]["RestartSec"])
    assert seconds < int(limit["StartLimitIntervalSec"])  # or the limit is never reached


def test_the_timer_starts_the_service_of_its_name(root):
    assert unit("penstock-retrain.timer", root)["Timer"]["OnCalendar"] == "*-*-* *:17:00"
    assert (recipes.CHECKOUT / "deploy/systemd/penstock-retrain.service").exists()

"""The crontab: its fields are a time; its command, run by the shell that cron takes, mails failures."""

import datetime
import re
import subprocess

import pytest
from croniter import croniter

from tests.commands.deploy import recipes


@pytest.fixture
def root(tmp_path):
    recipes.on_hold(tmp_path / "taxi")
    return tmp_path / "taxi"


def line(root) -> tuple[str, str, str]:
    """Its time, user and command: crontab(5) of a file in /etc/cron.d."""
    text = recipes.filled("cron/penstock-retrain", recipes.settings(root))
    [entry] = [each for each in text.splitlines() if each and not re.match(r"#|\w+=", each)]
    fields = entry.split(None, 6)
    return " ".join(fields[:5]), fields[5], fields[6]


def mailed(root) -> str:
    command = line(root)[2]
    done = subprocess.run(
        ["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def test_it_calls_once_an_hour(root):
    time, user, command = line(root)
    begin = datetime.datetime(2026, 11, 1)
    calls = croniter(time, begin)
    assert [calls.get_next(datetime.datetime) - begin for _ in range(2)] == [
        datetime.timedelta(minutes=17),
        datetime.timedelta(minutes=77),
    ]
    assert user == "root"
    assert "%" not in command  # cron ends the line there


@pytest.mark.slow
def test_nothing_is_mailed_where_all_is_as_it_should_be(root):
    assert mailed(root) == ""


@pytest.mark.slow
def test_nothing_is_mailed_of_another_call_at_work(root):
    with recipes.busy(root):
        assert mailed(root) == ""


@pytest.mark.slow
def test_what_a_person_must_correct_is_mailed(root):
    (root / "HOLD").unlink()
    assert "schema.json: received no such file" in mailed(root)


def test_its_shell_and_exit_code_are_those_that_the_command_is_written_for(root):
    text = recipes.filled("cron/penstock-retrain", recipes.settings(root))
    assert "SHELL=/bin/sh\n" in text
    assert f"[ $? -eq {recipes.AGAIN} ] ||" in line(root)[2]

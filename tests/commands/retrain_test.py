"""The command itself: its clock, what it prints, and how it ends where the disk is full."""

import resource
import subprocess
import sys

import pytest

from tests.shared import small_spans

CONFIG = "tests/shared/small_retraining.py"


def retrain(python, root, *arguments, **options):
    return subprocess.run(
        [python, "-m", "pipeline.retrain", f"--config={CONFIG}", f"--root={root}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture
def root(tmp_path):
    small_spans.write_schema(tmp_path / "root")
    return tmp_path / "root"


@pytest.mark.parametrize("now", ["0001-01-01", "0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "soon"])
def test_a_time_that_no_schedule_can_look_around_is_refused(warm_python, root, now):
    ended = retrain(warm_python, root, "plan", f"--now={now}")
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"error: --now={now}: received no time between 1971 and 2998")


@pytest.mark.parametrize("act", ["reconcile", "hold"])
def test_a_time_far_ahead_is_refused_where_it_would_be_recorded(warm_python, root, act):
    ended = retrain(warm_python, root, act, "--reason=a try", "--now=2998-01-01")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "days ahead of this machine's clock" in ended.stderr
    assert [path.name for path in root.iterdir()] == ["schema.json"]


def test_a_time_of_another_zone_is_told_in_utc(warm_python, root):
    command = ("plan", "--now=2026-11-04T01:30+05:00", "--config.triggers.cron=0 3 * * *")
    small_spans.write_span(root, 0)
    small_spans.write_span(root, 1)
    ended = retrain(warm_python, root, *command)
    assert "the schedule '0 3 * * *' was due at 2026-11-03 03:00 UTC" in ended.stdout


@pytest.mark.slow
def test_a_name_that_a_terminal_would_obey_is_written_out(warm_python, root):
    name = small_spans.write_span(root, 0)
    small_spans.folder(root, name).rename(small_spans.folder(root, "\x1b[2J"))
    ended = retrain(warm_python, root, "reconcile")
    assert ended.stdout.startswith("span \\x1b[2J: 240 rows\n"), ended


@pytest.mark.slow
def test_on_a_full_disk_a_scheduler_is_told_to_call_again(root):
    full = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))}
    ended = retrain(sys.executable, root, "hold", "--reason=holiday", **full)
    assert (ended.returncode, ended.stdout) == (75, "")
    assert ended.stderr.startswith(f"error: {root / 'audit.jsonl'}: received a disk that is full")
    assert retrain(sys.executable, root, "hold", "--reason=holiday").returncode == 0

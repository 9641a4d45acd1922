"""Some steps are recorded, each by itself; what is not recorded runs as before."""

import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.training.engine import trace
from pipeline.training.engine.trace import Steps
from pipeline.training.loop.clock import Tally
from pipeline.training.state.goodput import GoodputLog


@pytest.mark.parametrize(("text", "steps"), [("", None), ("0:1", (0, 1)), ("100:1100", (100, 1100))])
def test_steps_that_can_be_recorded(text, steps):
    found = trace.parsed(text)
    assert (found and (found.first, found.end)) == steps


@pytest.mark.parametrize("text", ["5", "5:", ":5", "5:5", "6:5", "-1:2", "a:b", "1:2:3", "0:1001", "1.5:3"])
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match=r"--profile_steps: received .*; expected FIRST:END"):
        trace.parsed(text)


def recorded(tmp_path: pathlib.Path, *, begun: int, calls: tuple[int, ...]) -> tuple[list[int], list[str]]:
    """What the loop under it was asked for, and what was told, where steps 5 to 7 are recorded."""
    asked, told = [], []

    def loop(steps: int) -> Tally:
        asked.append(steps)
        return Tally(steps=steps, loss=2.0 * steps)

    with GoodputLog(None, age_s=0.0) as ledger:
        run = trace.Traced(
            loop,
            Steps(first=5, end=8),
            begun=begun,
            folder=tmp_path / "trace",
            times=ledger,
            tell=told.append,
        )
        tallies = [run(count) for count in calls]
    assert [(tally.steps, tally.loss) for tally in tallies] == [(count, 2.0 * count) for count in calls]
    return asked, told


def test_recorded_steps_run_one_by_one_and_the_trace_is_there(tmp_path):
    asked, told = recorded(tmp_path, begun=0, calls=(3, 3, 4))
    assert asked == [3, 2, 1, 1, 1, 2]
    assert told == [f"trace      steps 5 to 7: {tmp_path / 'trace'}"]
    (file,) = (tmp_path / "trace").rglob("*.xplane.pb")
    assert b"train" in file.read_bytes()


def test_a_process_that_begins_after_the_first_of_them_records_nothing(tmp_path):
    asked, told = recorded(tmp_path, begun=6, calls=(4,))
    assert asked == [4]
    assert told == ["no trace: this process begins at step 6, after step 5"]
    assert not (tmp_path / "trace").exists()


def test_a_run_that_ends_before_leaves_no_trace(tmp_path):
    asked, told = recorded(tmp_path, begun=0, calls=(6,))
    assert (asked, told) == ([5, 1], [])
    assert not list(tmp_path.iterdir())
    recorded(tmp_path, begun=0, calls=(10,))  # another one can be made
    assert [each.name for each in tmp_path.iterdir()] == ["trace"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".trace.staging").mkdir()
    recorded(tmp_path, begun=6, calls=(4,))
    assert not list(tmp_path.iterdir())

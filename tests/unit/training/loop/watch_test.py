"""Bad steps are skipped, or passed over, or end the run; a resumed run has done the same."""

import pytest

from pipeline.base.errors import InputError
from pipeline.training.loop.bad_steps import Blame, Guard
from pipeline.training.loop.clock import Tally
from pipeline.training.loop.outer import Point, Session
from tests.unit.training.loop.outer_test import Memory, Rising, session

NAN = float("nan")


class Poisoned(Rising):
    """An inner loop whose steps `bad` have no loss, or none that counts where they are skipped."""

    def __init__(self, *bad: int, skips: bool, done: int = 0, limit: int = 100) -> None:
        super().__init__(done=done, limit=limit)
        self._start, self._next, self._bad, self._skips = done, done, bad, skips

    def __call__(self, steps: int) -> Tally:
        here = range(self._next, self._next + steps)
        self._next += steps
        sums = super().__call__(steps)
        bad = [step for step in here if step in self._bad]
        lost = sum(4.0 * (step + 1) for step in bad) if self._skips else NAN if bad else 0.0
        return Tally(
            steps=steps, seconds=1.0, loss=sums.loss - lost, bad=tuple(step - self._start for step in bad)
        )


def guard(policy: str, told: list | None = None, **settings) -> Guard:
    told = [] if told is None else told
    return Guard(
        policy=policy,
        blame=lambda step, is_spoiled: Blame(text=f"record 7, spoiled {is_spoiled}", is_certain=True),
        tell=lambda event, line: told.append(line),
        **settings,
    )


def run(one: Session, loop: Poisoned) -> list[Point]:
    points: list[Point] = []
    one.restore()
    one.run(loop, report=points.append)
    return points


# Stops: 2, 3 (logs), 4 (saves), 5 (an epoch ends), 6, 8, 9, 10 (an epoch ends).
def test_what_was_skipped_is_not_in_the_means_but_told_and_saved():
    memory, told = Memory(), []
    one = session(memory, total_steps=10, guard=guard("skip", told))
    points = run(one, Poisoned(1, 6, skips=True))
    # Steps 1 to 3 have losses of 1, 2 and 3; 2 was left out.
    assert [point["loss"] for point in points] == [2.0, 4.0, 5.0, 6.0, 8.0, 9.0, 10.0]
    assert told[0].startswith(
        "skipped    step 1, a loss or gradient that is not finite: record 7, spoiled False"
    )
    assert one.bad_steps == [{"step": 1, "did": "skipped"}, {"step": 6, "did": "skipped"}]
    assert memory.saved[1]["bad_steps"] == one.bad_steps


@pytest.mark.parametrize("policy", ["skip", "roll_back"])
@pytest.mark.parametrize("limit", [4, 5, 8, 9])
def test_a_killed_run_logs_and_does_what_the_undisturbed_one_does(policy, limit):
    def fresh(memory: Memory) -> Session:
        return session(memory, total_steps=10, guard=guard(policy))

    skips, whole, killed = policy == "skip", Memory(), Memory()
    points = run(undisturbed := fresh(whole), Poisoned(4, 6, skips=skips))
    with pytest.raises(KeyboardInterrupt):
        run(fresh(killed), Poisoned(4, 6, skips=skips, limit=limit))
    resumed = run(again := fresh(killed), Poisoned(4, 6, skips=skips, done=killed.newest))
    assert again.bad_steps == undisturbed.bad_steps
    assert killed.saved[1]["epoch"] == whole.saved[1]["epoch"]
    assert [point["loss"] for point in resumed] == [point["loss"] for point in points][-len(resumed) :]


def test_a_run_that_is_rolled_back_goes_on_behind_the_bad_batch():
    memory, told = Memory(), []
    one = session(memory, total_steps=10, guard=guard("roll_back", told))
    points = run(one, Poisoned(6, skips=False))
    # Step 6 is noticed at stop 8, after the checkpoint of step 5: of 5, 6 and 7 none counts in the epoch.
    assert one.bad_steps == [{"step": 6, "did": "rolled back", "to": 5, "until": 8}]
    assert "rolled back to the weights of step 5, and on with the batch of step 8: step 6" in told[0]
    assert [point["step"] for point in points] == [3, 4, 5, 6, 9, 10]
    assert points[-2]["loss"] == 9.0


def test_without_a_checkpoint_there_is_nothing_to_roll_back_to():
    with pytest.raises(InputError, match=r"step 1: .*record 7, spoiled True; .*Nothing is saved yet"):
        run(session(Memory(), total_steps=10, guard=guard("roll_back")), Poisoned(1, skips=False))


def test_a_run_that_stops_names_the_step_the_records_and_the_way_on():
    with pytest.raises(
        InputError,
        match=r"step 6: received .*record 7, spoiled False; .*of step 5, is from before. Look at the batch: "
        r"python -m pipeline.replay --step=6 .*on_bad_step=skip",
    ):
        run(session(Memory(), total_steps=10, guard=guard("stop")), Poisoned(6, skips=False))


@pytest.mark.parametrize("policy", ["skip", "roll_back"])
def test_more_bad_steps_than_allowed_end_the_run(policy):
    one = session(Memory(), total_steps=20, guard=guard(policy, allowed=2))
    with pytest.raises(
        InputError, match=r"steps 5, 9, 1\d: received losses or .*at most 2 such steps: --config"
    ):
        run(one, Poisoned(5, 9, 13, 14, skips=policy == "skip"))


def test_an_epoch_of_which_nothing_counts_is_not_logged():
    points = run(session(Memory(), total_steps=10, guard=guard("skip")), Poisoned(*range(5, 10), skips=True))
    assert [point["step"] for point in points] == [3, 4, 5]

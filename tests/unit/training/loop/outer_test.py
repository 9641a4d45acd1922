"""A session goes on from what it saved, and stops where it must."""

import signal
from collections.abc import Mapping

import keras
import numpy as np
import pytest

from pipeline.base.cli.signals import Interrupted
from pipeline.base.errors import InputError
from pipeline.training.loop.bad_steps import Attribution, Guard
from pipeline.training.loop.clock import Cadence, Tally
from pipeline.training.loop.outer import Point, Session
from pipeline.training.state import checkpoints


class Memory:
    """Checkpoints of a loop whose model has nothing to save."""

    def __init__(self) -> None:
        self.saved: tuple[int, dict] = (0, {})
        self.metrics: dict[int, Mapping[str, float]] = {}

    @property
    def newest(self) -> int:
        return self.saved[0]

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None:
        self.saved = (step, checkpoints.unpack_nested(*checkpoints.pack_nested(session)))
        self.metrics[step] = metrics

    def finish(self) -> None:
        """What is saved is there at once."""

    def restore(self) -> tuple[int, Mapping]:
        return self.saved


def one_each(steps: int) -> Tally:
    """An inner loop whose examples have a loss of 1 each, 4 a step."""
    return Tally(steps=steps, seconds=1.0, loss=4.0 * steps)


class Rising:
    """An inner loop in which step n has a loss of n an example; `limit` is the step that it dies after."""

    def __init__(self, *, done: int = 0, limit: int = 100) -> None:
        self._done, self._limit = done, limit

    def __call__(self, steps: int) -> Tally:
        numbers = range(self._done + 1, self._done + steps + 1)
        self._done += steps
        if self._done > self._limit:
            raise KeyboardInterrupt
        return Tally(steps=steps, seconds=1.0, loss=4.0 * sum(numbers))


class EpochLosses(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.losses.append(logs["loss"])


def session(
    memory: Memory,
    *,
    total_steps: int,
    callbacks=(),
    evaluate=lambda epoch: None,
    asked=lambda: 0,
    guard: Guard | None = None,
) -> Session:
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.optimizer = keras.optimizers.SGD(0.5)
    cadence = Cadence(
        records=20,  # an epoch is 5 steps
        global_batch=4,
        total_steps=total_steps,
        steps_per_loop=2,
        log_every_steps=3,
        checkpoint_every_steps=4,
    )
    return Session(
        model,
        cadence=cadence,
        checkpoints=memory,
        callbacks=callbacks,
        evaluate=evaluate,
        has_accuracy=False,
        asked_to_stop=asked,
        guard=guard,
    )


def run(one: Session, inner_loop=one_each) -> list[Point]:
    points: list[Point] = []
    one.restore()
    one.run(inner_loop, report=points.append)
    return points


def test_logs_where_the_schedule_says_so():
    points = run(session(Memory(), total_steps=7))
    assert [point["step"] for point in points] == [3, 4, 5, 6, 7]
    assert {point["loss"] for point in points} == {1.0}
    assert points[0]["examples"] == 12


def test_a_point_holds_the_mean_of_the_steps_since_the_last_one():
    points = run(session(Memory(), total_steps=7), Rising())
    assert [point["loss"] for point in points] == [2.0, 4.0, 5.0, 6.0, 7.0]


def test_an_epoch_has_the_mean_of_all_its_steps_over_a_restart():
    memory, undisturbed, resumed = Memory(), EpochLosses(), EpochLosses()
    run(session(Memory(), total_steps=10, callbacks=[undisturbed]), Rising())
    with pytest.raises(KeyboardInterrupt):
        run(session(memory, total_steps=10, callbacks=[EpochLosses()]), Rising(limit=4))
    run(session(memory, total_steps=10, callbacks=[resumed]), Rising(done=4))
    assert resumed.losses == undisturbed.losses == [3.0, 8.0]


def test_a_later_session_goes_on_from_the_step_that_was_saved():
    memory = Memory()
    run(session(memory, total_steps=4))
    later = session(memory, total_steps=7)
    assert later.restore() == 4
    assert [point["step"] for point in run(later)] == [5, 6, 7]


def test_callbacks_keep_their_numbers_over_a_restart():
    def stopping() -> keras.callbacks.EarlyStopping:
        return keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, mode="min")

    def worse(epoch: int) -> dict:
        return {"loss": float(epoch)}

    memory = Memory()
    run(session(memory, total_steps=10, callbacks=[stopping()], evaluate=worse))
    points = run(session(memory, total_steps=100, callbacks=[stopping()], evaluate=worse))
    assert points[-1]["step"] == 15  # the third epoch is the second without an improvement


def test_what_a_callback_stopped_stays_stopped():
    memory = Memory()
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=0, mode="min")
    run(session(memory, total_steps=100, callbacks=[stopping]))
    step, _ = memory.saved
    assert step < 100
    assert run(session(memory, total_steps=100)) == []


def test_what_a_callback_does_at_the_end_is_saved():
    class Last(keras.callbacks.Callback):
        def on_train_end(self, logs: dict | None = None) -> None:
            self.model.stop_training = True  # which the session's state holds

    memory = Memory()
    run(session(memory, total_steps=7, callbacks=[Last()]))
    step, state = memory.saved
    assert (step, state["stopped"]) == (7, True)


def test_batches_are_counted_in_their_epoch_as_fit_counts_them():
    calls: list[tuple] = []
    watching = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: calls.append((batch,)),
        on_train_batch_end=lambda batch, logs: calls.append((*calls.pop(), batch, logs["loss"])),
    )
    run(session(Memory(), total_steps=7, callbacks=[watching]), Rising())
    # Stops: 2, 3, 4, 5 (an epoch ends), 6, 7. The loss is the mean of the epoch so far.
    assert calls == [(0, 1, 1.5), (2, 2, 2.0), (3, 3, 2.5), (4, 4, 3.0), (0, 0, 6.0), (1, 1, 6.5)]


class Stopping(keras.callbacks.Callback):
    """Stops the run in the middle of an epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple] = []

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.model.stop_training = batch == 1

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.ended.append((epoch, logs))

    def on_train_end(self, logs: dict | None = None) -> None:
        self.ended.append(("train", logs))


def test_a_stop_in_the_middle_of_an_epoch_ends_it_as_fit_does():
    memory, stopping = Memory(), Stopping()
    run(session(memory, total_steps=7, callbacks=[stopping], evaluate=lambda epoch: {"loss": 3.0}), Rising())
    logs = {"loss": 1.5, "val_loss": 3.0}
    assert stopping.ended == [(0, logs), ("train", logs)]
    assert memory.saved[0] == 2


def test_a_number_that_a_validation_lacks_ends_the_run_and_keras_is_quiet(recwarn):
    stopping = keras.callbacks.EarlyStopping(monitor="val_auc", mode="max")
    of_one_class = session(
        Memory(),
        total_steps=20,
        callbacks=[stopping],
        evaluate=lambda epoch: {"loss": 1.0} if epoch == 2 else None,
    )
    with pytest.raises(InputError, match=r"monitor of EarlyStopping: received 'val_auc', which could not"):
        run(of_one_class)
    assert not recwarn.list


# Stops: 2, 3 (logs), 4 (saves), 5 (an epoch ends), 6, 7 (the end).
@pytest.mark.parametrize(("stops", "step"), [(1, 2), (2, 3), (3, 4), (4, 5), (6, 7)])
def test_a_run_that_is_asked_to_stop_saves_itself_there_and_logs_nothing_twice(stops, step):
    memory, points, asked = Memory(), [], iter([0] * (stops - 1) + [signal.SIGTERM])
    first = session(memory, total_steps=7, asked=lambda: next(asked))
    first.restore()
    with pytest.raises(Interrupted, match=f"saved at step {step}, from where") as stopped:
        first.run(Rising(), report=points.append)
    assert (stopped.value.number, memory.newest) == (signal.SIGTERM, step)
    later = session(memory, total_steps=7)
    later.restore()
    assert later.logged == (points[-1]["step"] if points else 0)
    later.run(Rising(done=step), report=points.append)
    undisturbed = run(session(Memory(), total_steps=7), Rising())
    assert [(each["step"], each["loss"]) for each in points] == [
        (each["step"], each["loss"]) for each in undisturbed
    ]


def test_a_run_that_a_callback_ends_between_log_points_logs_its_end():
    class Ending(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            self.model.stop_training = True

    memory = Memory()
    points = run(session(memory, total_steps=7, callbacks=[Ending()]), Rising())
    assert ([each["step"] for each in points], memory.newest) == ([2], 2)


def test_metrics_are_saved_where_an_epoch_ends():
    memory = Memory()
    run(session(memory, total_steps=7, evaluate=lambda epoch: {"loss": float(epoch)}), Rising())
    assert memory.metrics == {
        4: {},
        5: {"loss": 3.0, "val_loss": 1.0},
        7: {"loss": 6.5, "val_loss": 2.0},
    }


@pytest.mark.parametrize(("puts_back", "known"), [(True, []), (False, ["loss"])])
def test_metrics_are_not_those_of_weights_that_a_callback_puts_back(puts_back, known):
    class PuttingBack(keras.callbacks.Callback):
        def on_train_end(self, logs: dict | None = None) -> None:
            if puts_back:
                self.model.set_weights([np.full_like(each, 7.0) for each in self.model.get_weights()])

    memory = Memory()
    run(session(memory, total_steps=7, callbacks=[PuttingBack()]), Rising())
    assert list(memory.metrics[7]) == known


def test_a_loss_that_is_not_finite_is_not_saved():
    memory = Memory()
    with pytest.raises(
        InputError, match=r"step 1: received a loss or gradient that is not finite; .*Nothing is"
    ):
        run(
            session(memory, total_steps=7),
            lambda steps: Tally(steps=steps, seconds=1.0, loss=float("nan"), bad=(1,)),
        )
    assert memory.saved == (0, {})


# Bad steps are skipped, or passed over, or end the run; a resumed run has done the same.

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
        attribution=lambda step, is_spoiled: Attribution(
            text=f"record 7, spoiled {is_spoiled}", is_certain=True
        ),
        tell=lambda event, line: told.append(line),
        **settings,
    )


def watched_run(one: Session, loop: Poisoned) -> list[Point]:
    points: list[Point] = []
    one.restore()
    one.run(loop, report=points.append)
    return points


# Stops: 2, 3 (logs), 4 (saves), 5 (an epoch ends), 6, 8, 9, 10 (an epoch ends).
def test_what_was_skipped_is_not_in_the_means_but_told_and_saved():
    memory, told = Memory(), []
    one = session(memory, total_steps=10, guard=guard("skip", told))
    points = watched_run(one, Poisoned(1, 6, skips=True))
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
    points = watched_run(undisturbed := fresh(whole), Poisoned(4, 6, skips=skips))
    with pytest.raises(KeyboardInterrupt):
        watched_run(fresh(killed), Poisoned(4, 6, skips=skips, limit=limit))
    resumed = watched_run(again := fresh(killed), Poisoned(4, 6, skips=skips, done=killed.newest))
    assert again.bad_steps == undisturbed.bad_steps
    assert killed.saved[1]["epoch"] == whole.saved[1]["epoch"]
    assert [point["loss"] for point in resumed] == [point["loss"] for point in points][-len(resumed) :]


def test_a_run_that_is_rolled_back_goes_on_behind_the_bad_batch():
    memory, told = Memory(), []
    one = session(memory, total_steps=10, guard=guard("roll_back", told))
    points = watched_run(one, Poisoned(6, skips=False))
    # Step 6 is noticed at stop 8, after the checkpoint of step 5: of 5, 6 and 7 none counts in the epoch.
    assert one.bad_steps == [{"step": 6, "did": "rolled back", "to": 5, "until": 8}]
    assert "rolled back to the weights of step 5, and on with the batch of step 8: step 6" in told[0]
    assert [point["step"] for point in points] == [3, 4, 5, 6, 9, 10]
    assert points[-2]["loss"] == 9.0


def test_without_a_checkpoint_there_is_nothing_to_roll_back_to():
    with pytest.raises(InputError, match=r"step 1: .*record 7, spoiled True; .*Nothing is saved yet"):
        watched_run(session(Memory(), total_steps=10, guard=guard("roll_back")), Poisoned(1, skips=False))


def test_a_run_that_stops_names_the_step_the_records_and_the_way_on():
    with pytest.raises(
        InputError,
        match=r"step 6: received .*record 7, spoiled False; .*of step 5, is from before. Look at the batch: "
        r"python -m pipeline.replay --step=6 .*on_bad_step=skip",
    ):
        watched_run(session(Memory(), total_steps=10, guard=guard("stop")), Poisoned(6, skips=False))


@pytest.mark.parametrize("policy", ["skip", "roll_back"])
def test_more_bad_steps_than_allowed_end_the_run(policy):
    one = session(Memory(), total_steps=20, guard=guard(policy, allowed=2))
    with pytest.raises(
        InputError, match=r"steps 5, 9, 1\d: received losses or .*at most 2 such steps: --config"
    ):
        watched_run(one, Poisoned(5, 9, 13, 14, skips=policy == "skip"))


def test_an_epoch_of_which_nothing_counts_is_not_logged():
    points = watched_run(
        session(Memory(), total_steps=10, guard=guard("skip")), Poisoned(*range(5, 10), skips=True)
    )
    assert [point["step"] for point in points] == [3, 4, 5]

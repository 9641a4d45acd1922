"""A session goes on from what it saved, and stops where it must."""

import json

import keras
import pytest

from pipeline.data.errors import InputError
from pipeline.training.loop.outer import Point, Session
from pipeline.training.loop.schedule import Cadence
from pipeline.training.loop.step_sums import Tally


class Memory:
    """Checkpoints of a loop whose model has nothing to save."""

    def __init__(self) -> None:
        self.saved = (0, "")

    def save(self, step: int, *, session_state: str) -> None:
        self.saved = (step, session_state)

    def restore(self) -> tuple[int, str]:
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


def session(memory: Memory, *, total_steps: int, callbacks=(), evaluate=lambda epoch: None) -> Session:
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
            self.ended = True  # one of the numbers that are saved

    memory = Memory()
    run(session(memory, total_steps=7, callbacks=[Last()]))
    step, state = memory.saved
    assert (step, json.loads(state)["callbacks"][0]["numbers"]["ended"]) == (7, True)


def test_a_loss_that_is_not_finite_is_not_saved():
    memory = Memory()
    with pytest.raises(InputError, match="loss before step 3: received nan"):
        run(
            session(memory, total_steps=7),
            lambda steps: Tally(steps=steps, seconds=1.0, loss=float("nan")),
        )
    assert memory.saved == (0, "")

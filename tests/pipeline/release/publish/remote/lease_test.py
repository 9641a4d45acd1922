"""One holder at a time; one that was given up cannot make a version any more."""

import pytest

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, RefusedError
from pipeline.publishing.remote.lease import NAME, LostError, acquired, held


def take(bucket, time, holder="one"):
    return acquired(bucket, holder=holder, interval=30.0, time=time)


def test_while_one_holds_it_and_lives_another_is_told_to_try_again(bucket, time):
    lease = take(bucket, time)
    time.meanwhile = lease.beat
    with pytest.raises(TryAgainError, match="one that one holds"):
        take(bucket, time, "other")
    assert lease.token == 1


def test_a_lease_that_was_released_is_taken_at_once_and_the_token_rises(bucket, time):
    for token in (1, 2, 3):
        with held(bucket, holder="one", time=time) as lease:
            assert lease.token == token
            assert bucket.find(NAME).metadata["holder"] == "one"
        assert bucket.find(NAME).metadata["holder"] == ""
    assert time.now() == 0


def test_a_holder_that_is_not_heard_of_for_an_interval_is_given_up(bucket, time):
    old = take(bucket, time)
    new = take(bucket, time, "other")
    assert (time.now(), new.token) == (30, 2)
    with pytest.raises(LostError):
        old.beat()
    new.beat()


def test_of_two_that_give_it_up_together_one_gets_it(bucket, time):
    take(bucket, time)

    def another_is_quicker(verb: str, name: str) -> None:
        bucket.before = lambda verb, name: None
        take(bucket, time, "quicker")

    bucket.before = another_is_quicker
    with pytest.raises(TryAgainError, match="quicker"):
        take(bucket, time, "slower")


def test_a_heartbeat_keeps_it_for_another_interval(bucket, time):
    lease = take(bucket, time)
    time.seconds = 29
    lease.beat()
    time.seconds = 58
    lease.write("a", b"")
    time.seconds = 59
    for act in (lambda: lease.write("b", b""), lambda: lease.delete(bucket.find("a")), lease.beat):
        with pytest.raises(LostError):
            act()
    assert [stored.name for stored in bucket.list()] == [NAME, "a"]


def test_a_commit_says_who_made_it(bucket, time):
    made = take(bucket, time).commit("1/saved_model.pb", b"graph")
    assert bucket.read(made) == b"graph"
    assert (made.metadata["holder"], made.metadata["token"]) == ("one", "1")


def test_a_holder_that_wakes_after_it_was_given_up_cannot_commit(bucket, time):
    """Its own clock stood still with it, so it does not know."""
    stale_time = type(time)()
    stale = take(bucket, stale_time)
    take(bucket, time, "other")
    assert stale_time.now() == 0
    with pytest.raises(LostError):
        stale.commit("1/saved_model.pb", b"graph")
    with pytest.raises(LostError):
        stale.write("2/x", b"")
    assert [stored.name for stored in bucket.list()] == [NAME]


def test_a_holder_that_is_given_up_between_the_two_requests_of_a_commit_cannot_commit(bucket, time):
    stale = take(bucket, type(time)())

    def pause(verb: str, name: str) -> None:
        if verb == "copy":
            bucket.before = lambda verb, name: None
            take(bucket, time, "other")

    bucket.before = pause
    with pytest.raises(LostError):
        stale.commit("1/saved_model.pb", b"graph")
    assert [stored.name for stored in bucket.list()] == [NAME]


def test_an_answer_that_is_lost_is_not_taken_for_another_holder(bucket, time):
    """The library asks again, and the store refuses what it has done already."""
    lease = take(bucket, time)
    write, copy = bucket.write, bucket.copy

    def asked_twice(act):
        def twice(*args, **more):
            act(*args, **more)
            raise RefusedError("it is there")

        return twice

    bucket.write, bucket.copy = asked_twice(write), asked_twice(copy)
    lease.commit("1/saved_model.pb", b"graph")
    lease.beat()
    bucket.write, bucket.copy = write, copy
    lease.beat()


def test_a_lease_that_a_person_removed_is_lost_to_its_holder(bucket, time):
    lease = take(bucket, time)
    bucket.delete(bucket.find(NAME))
    with pytest.raises(LostError):
        lease.commit("1/saved_model.pb", b"graph")
    assert bucket.write(NAME, b"", generation=ABSENT)

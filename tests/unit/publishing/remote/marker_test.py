"""Who claimed a place last makes its versions; nobody who claimed before can."""

import pytest

from pipeline.base.errors import TryAgainError
from pipeline.publishing.remote.bucket import ABSENT, RefusedError
from pipeline.publishing.remote.marker import NAME, LostError, Marker, claimed

GRAPH = "1/saved_model.pb"


def names(bucket):
    return [stored.name for stored in bucket.list()]


def test_a_claim_leaves_nothing_behind(bucket):
    with claimed(bucket, writer="one") as marker:
        assert bucket.find(NAME).metadata["writer"] == "one"
        marker.check()
    assert names(bucket) == []


def test_the_marker_of_another_process_is_left_to_it(bucket):
    with claimed(bucket, writer="one"):
        Marker(bucket, writer="other")
    assert bucket.find(NAME).metadata["writer"] == "other"


def test_a_commit_has_the_bytes_and_may_be_followed_by_another(bucket):
    marker = Marker(bucket, writer="one")
    assert bucket.read(marker.commit(GRAPH, b"graph")) == b"graph"
    assert bucket.read(marker.commit("2/saved_model.pb", b"other")) == b"other"


@pytest.mark.parametrize("ended", [False, True])
def test_who_claimed_before_finds_out_and_cannot_commit(bucket, ended):
    old = Marker(bucket, writer="one")
    new = Marker(bucket, writer="other")
    if ended:
        new.release()
    for act in (old.check, lambda: old.commit(GRAPH, b"graph")):
        with pytest.raises(LostError):
            act()
    assert bucket.find(GRAPH) is None


def test_who_loses_the_place_between_the_two_requests_of_a_commit_cannot_commit(bucket):
    old = Marker(bucket, writer="one")

    def take_over(verb, name):
        if verb == "copy":
            bucket.before = lambda verb, name: None
            Marker(bucket, writer="other")

    bucket.before = take_over
    with pytest.raises(LostError):
        old.commit(GRAPH, b"graph")
    assert names(bucket) == [NAME]


def test_of_two_that_claim_at_the_same_moment_one_is_told_to_try_again(bucket):
    def another_is_quicker(verb, name):
        bucket.before = lambda verb, name: None
        Marker(bucket, writer="quicker")

    bucket.before = another_is_quicker
    with pytest.raises(TryAgainError):
        Marker(bucket, writer="slower")
    assert bucket.find(NAME).metadata["writer"] == "quicker"


def test_an_answer_that_is_lost_is_not_taken_for_another_writer(bucket):
    """The library asks again, and the store refuses what it has done already."""
    write, copy = bucket.write, bucket.copy

    def asked_twice(act):
        def twice(*args, **more):
            act(*args, **more)
            raise RefusedError("it is there")

        return twice

    bucket.write, bucket.copy = asked_twice(write), asked_twice(copy)
    marker = Marker(bucket, writer="one")
    marker.commit(GRAPH, b"graph")
    marker.check()
    assert bucket.read(bucket.find(GRAPH)) == b"graph"


def test_a_marker_that_a_person_removed_is_lost(bucket):
    marker = Marker(bucket, writer="one")
    bucket.delete(bucket.find(NAME))
    with pytest.raises(LostError):
        marker.commit(GRAPH, b"graph")
    assert bucket.write(NAME, b"", generation=ABSENT)

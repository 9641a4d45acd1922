"""A place gets the versions of the serving directory, whatever it had, and nothing else is ever changed."""

import pathlib
import shutil

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish, versions
from pipeline.publishing.remote import stored as stored_lib
from pipeline.publishing.remote.marker import Marker
from tests.shared import plain_export
from tests.shared.fixtures.buckets import names
from tests.shared.fixtures.serving import AT


def content(bucket, name):
    return bucket.read(bucket.find(name))


def served(bucket):
    return sorted(n for n, found in stored_lib.look(bucket).versions.items() if found.is_loadable)


def same_as(serving, bucket):
    """Whether the place has the files of all versions, and no object more."""
    here = {path.relative_to(serving).as_posix(): path for path in serving.rglob("[!.]*") if path.is_file()}
    here = {name: path for name, path in here.items() if not name.startswith(".")}
    return names(bucket) == {*here} and all(content(bucket, n) == p.read_bytes() for n, p in here.items())


def test_every_file_of_a_version_is_there_byte_for_byte(put, serving, bucket, follow):
    put("c1")
    put("c2")
    assert follow(bucket).missing == [2, 1]
    assert same_as(serving, bucket)


def test_where_nothing_differs_nothing_is_asked_but_one_listing(put, bucket, follow):
    put("c1")
    follow(bucket)
    bucket.find = bucket.read = bucket.before = None  # would fail
    assert follow(bucket).none


def test_a_version_begins_with_its_last_object(put, bucket, follow):
    put("c1")
    asked = []
    bucket.before = lambda verb, name: asked.append((verb, name, len(served(bucket))))
    follow(bucket)
    copies = [name for verb, name, _ in asked if verb == "copy"]
    assert copies[-2:] == ["1/publication.json", "1/saved_model.pb"]
    assert all(not count for _, _, count in asked[: asked.index(("copy", "1/saved_model.pb", 0)) + 1])


def test_a_version_that_was_taken_back_goes_and_its_first_object_is_the_graph(put, serving, bucket, follow):
    put("c1"), put("c2")
    follow(bucket)
    publish.take_back(serving, 2, reason="NaN", at=AT)
    asked = []
    bucket.before = lambda verb, name: asked.append(name) if name != ".marker" else None
    assert follow(bucket).gone == [2]
    assert asked[:2] == ["2/saved_model.pb", "2/publication.json"]
    assert (served(bucket), same_as(serving, bucket)) == ([1], True)


def test_it_goes_even_if_the_version_above_cannot_be_uploaded(put, serving, bucket, follow):
    put("c1"), put("c2")
    follow(bucket)
    publish.take_back(serving, 2, reason="NaN", at=AT)
    put("c3")

    def full(verb, name):
        if name.startswith(".content"):
            raise TryAgainError("store", received="no room", expected="room", action="")

    bucket.before = full
    with pytest.raises(TryAgainError):
        follow(bucket)
    assert served(bucket) == [1]


def test_a_rollback_is_followed_under_its_higher_number(put, serving, bucket, follow):
    put("c1"), put("c2")
    follow(bucket)
    assert publish.rollback(serving, to=1, reason="worse", at=AT) == 3
    follow(bucket)
    assert (served(bucket), same_as(serving, bucket)) == ([1, 3], True)


def test_the_only_version_goes_after_the_one_that_takes_its_place(put, serving, bucket, follow):
    put("c1")
    follow(bucket)
    put("c2"), put("c3")
    publish.collect(serving, keep=1)
    least = []
    bucket.before = lambda verb, name: least.append(len(served(bucket)))
    follow(bucket)
    assert (served(bucket), min(least)) == ([3], 1)


def test_a_version_that_lost_a_file_is_published_again(put, serving, bucket, follow):
    put("c1")
    follow(bucket)
    bucket.delete(bucket.find("1/assets/cycle"))
    assert follow(bucket).broken == [1]
    assert same_as(serving, bucket)


def test_a_version_that_is_damaged_here_stays_there(put, serving, bucket, follow):
    put("c1"), put("c2")
    follow(bucket)
    (serving / "2" / "assets" / "cycle").unlink()
    assert follow(bucket).none
    assert served(bucket) == [1, 2]


def test_damaged_bytes_are_not_uploaded(put, serving, bucket, follow):
    put("c1")
    (serving / "1" / "assets" / "cycle").write_text("c2")
    with pytest.raises(InputError, match=r"assets/cycle.*SHA-256"):
        follow(bucket)
    assert served(bucket) == []


def test_bytes_that_arrive_otherwise_make_no_version(put, bucket, follow):
    put("c1")

    def damaged(verb, name):
        if name == "1/publication.json":  # behind all others
            there = bucket.find("1/assets/cycle")
            bucket.before = lambda verb, name: None
            bucket.write(there.name, b"c2", generation=there.generation)

    bucket.before = damaged
    with pytest.raises(TryAgainError, match="1/assets/cycle"):
        follow(bucket)
    assert served(bucket) == []
    follow(bucket)
    assert content(bucket, "1/assets/cycle") == b"c1"


@pytest.mark.parametrize("case", ["unknown number", "other bytes under ours", "ours, by hand"])
def test_versions_of_somebody_else_stop_everything(case, put, serving, bucket, follow, tmp_path):
    put("c1")
    other = tmp_path / "other"
    export = plain_export.write(tmp_path / "export-of-other", {"saved_model.pb": b"other"})
    publish.publish(export, other, cycle="x", at=AT)
    if case == "unknown number":
        publish.publish(export, other, cycle="y", at=AT)
    follow(bucket, other)
    if case == "ours, by hand":
        put("c2")
        publish.take_back(serving, 1, reason="NaN", at=AT)
    before = bucket.list()
    with pytest.raises(InputError, match=r"version \d of gs://bucket/models/taxi.*never published"):
        follow(bucket)
    assert names(bucket) == {stored.name for stored in before}


def test_an_export_without_a_graph_cannot_be_published(serving, bucket, follow, tmp_path):
    export = plain_export.write(tmp_path / "export", {"model.txt": b"x"})
    publish.publish(export, serving, cycle="c1", at=AT)
    with pytest.raises(InputError, match=r"no saved_model\.pb"):
        follow(bucket)
    assert names(bucket) == set()


def test_what_is_told_is_what_is_about_to_be_done(put, serving, bucket, follow):
    put("c1"), put("c2")
    told = []
    follow(bucket, tell=lambda found: told.append((found, served(bucket))))
    publish.take_back(serving, 2, reason="NaN", at=AT)
    follow(bucket, tell=lambda found: told.append((found, served(bucket))))
    assert [(found.missing, found.gone, before) for found, before in told] == [
        ([2, 1], [], []),
        ([], [2], [1, 2]),
    ]


class Killed(BaseException):
    pass


def test_a_kill_before_any_request_is_finished_by_who_comes_next(put, serving, bucket, follow):
    """Publishing, taking back and collecting, broken off before the first request, the second, …"""
    put("c1"), put("c2")
    follow(bucket)
    publish.take_back(serving, 2, reason="NaN", at=AT)
    put("c3"), put("c4")
    publish.collect(serving, keep=2)
    kills = 0
    while _is_killed_at(kills, killed := bucket.twin(), follow):
        assert served(killed)
        assert _is_whole(killed, served(killed))
        follow(killed)
        assert (served(killed), same_as(serving, killed)) == ([3, 4], True)
        kills += 1
    assert kills >= 30


def _is_killed_at(count, bucket, follow):
    asked = iter(range(count))

    def kill(verb, name):
        if next(asked, None) is None:
            raise Killed

    bucket.before = kill
    try:
        follow(bucket)
    except Killed:
        return True
    finally:
        bucket.before = lambda verb, name: None
    return False


def _is_whole(bucket, numbers):
    there = stored_lib.look(bucket).versions
    documents = {number: _document(bucket, number) for number in numbers}
    return all({*documents[n]["files"], versions.FILE_NAME} == {*there[n].files} for n in numbers)


def _document(bucket, number):
    path = pathlib.Path(str(number), versions.FILE_NAME)
    return versions.loads(content(bucket, path.as_posix()), path)


def test_who_wakes_after_another_took_over_makes_no_version(put, serving, bucket, follow):
    """Before each of its requests, in turn, a writer is paused until another has taken over and finished."""
    put("c1")
    paused = 1  # the first request claims the place
    while _gives_up_at(paused, stale := bucket.twin(), follow):
        assert served(stale) == [1]
        assert all(name.startswith(("1/", ".content/")) for name in names(stale))
        follow(stale)
        assert same_as(serving, stale)
        paused += 1
    assert paused > 10


def test_who_wakes_after_the_version_was_taken_back_leaves_it_gone(put, serving, bucket, follow, tmp_path):
    put("c1")
    follow(bucket)
    put("c2")
    before = shutil.copytree(serving, tmp_path / "before")
    publish.take_back(serving, 2, reason="NaN", at=AT)
    paused = 1
    while _gives_up_at(paused, stale := bucket.twin(), follow, directory=before):
        assert served(stale) == [1]
        follow(stale)
        assert same_as(serving, stale)
        paused += 1
    assert paused > 10


def _gives_up_at(count, bucket, follow, **more):
    """Whether it was told to try again, after so many requests and a pause in which another one finished."""
    asked = iter(range(count))

    def pause(verb, name):
        if next(asked, None) is None:
            bucket.before = lambda verb, name: None
            follow(bucket)

    bucket.before = pause
    try:
        follow(bucket, **more)
    except TryAgainError:
        return True
    finally:
        bucket.before = lambda verb, name: None
    return False


def test_a_claim_that_another_process_took_over_ends_the_call(put, bucket, follow):
    put("c1")

    def take_over(verb, name):
        if verb == "copy":
            bucket.before = lambda verb, name: None
            Marker(bucket, writer="other")

    bucket.before = take_over
    with pytest.raises(TryAgainError, match=r"\.marker"):
        follow(bucket)
    assert served(bucket) == []


def test_a_marker_that_a_killed_process_left_keeps_nobody_out(put, serving, bucket, follow):
    put("c1")
    Marker(bucket, writer="killed")
    follow(bucket)
    assert same_as(serving, bucket)


def test_what_a_killed_upload_left_is_not_sent_again(put, serving, bucket, follow):
    put("c1")

    def kill(verb, name):
        if verb == "copy":
            raise Killed

    bucket.before = kill
    with pytest.raises(Killed):
        follow(bucket)
    sent = []
    bucket.before = lambda verb, name: sent.append(name) if verb == "write" else None
    follow(bucket)
    assert set(sent) == {".marker"}
    assert same_as(serving, bucket)

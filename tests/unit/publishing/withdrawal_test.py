"""Versions are taken back, rolled back and collected; what is newest afterwards is sound."""

import pathlib

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish, versions
from tests.shared.fixtures.serving import AT, Put, cycle_in, names
from tests.shared.full_disk import no_room


def damage(directory: pathlib.Path, version: int) -> None:
    """One bit, which no size tells."""
    path = directory / str(version) / "saved_model.pb"
    path.write_bytes(path.read_bytes().replace(b"g", b"f"))


def take_back(directory: pathlib.Path, version: int) -> int | None:
    return publish.take_back(directory, version, reason="it answered NaN", at=AT)


def rollback(directory: pathlib.Path, to: int) -> int:
    return publish.rollback(directory, to=to, reason="it sells less", at=AT)


def test_the_version_before_is_newest_when_one_is_taken_back(serving, put: Put):
    put("c1"), put("c2")
    assert take_back(serving, 2) == 1
    assert versions.versions(serving) == [1]
    assert names(serving / ".quarantine") == {"2"}


def test_a_cycle_that_was_taken_back_is_never_published_again(serving, put: Put):
    put("c1")
    assert take_back(serving, 1) is None
    assert publish.quarantined(serving) == {"c1": "it answered NaN"}
    with pytest.raises(InputError, match=r"c1: .*it answered NaN"):
        put("c1")
    assert put("c2") == 2


def test_taking_back_twice_changes_nothing(serving, put: Put):
    put("c1"), put("c2")
    assert [take_back(serving, 2), take_back(serving, 2)] == [1, 1]
    assert put("c3") == 3


def test_the_newest_that_is_sound_leads_where_the_one_before_was_damaged(serving, put: Put):
    for cycle in ("c1", "c2", "c3"):
        put(cycle)
    damage(serving, 2)
    assert take_back(serving, 3) == 4
    assert versions.versions(serving) == [1, 4]
    assert cycle_in(serving, 4) == "c1"
    assert publish.quarantined(serving).keys() == {"c3"}
    assert put("c2") == 5  # its bytes were damaged, it was not bad


def test_a_version_that_was_never_there_is_not_taken_back(serving, put: Put):
    put("c1")
    with pytest.raises(InputError, match="published: 1"):
        take_back(serving, 7)


def test_a_damaged_version_can_be_taken_back(serving, put: Put):
    put("c1"), put("c2")
    (serving / "2" / "publication.json").unlink()
    assert take_back(serving, 2) == 1
    assert publish.quarantined(serving).keys() == {"c2"}


def test_a_full_disk_does_not_keep_a_bad_version(serving, put: Put):
    put("c1"), put("c2")
    with no_room(0), pytest.raises(TryAgainError, match="disk that is full"):
        take_back(serving, 2)
    assert versions.versions(serving) == [1]
    assert publish.quarantined(serving).keys() == {"c2"}
    assert take_back(serving, 2) == 1
    assert publish.quarantined(serving) == {"c2": "it answered NaN"}


def test_rolling_back_publishes_old_bytes_under_a_higher_number(serving, put: Put):
    for cycle in ("c1", "c2", "c3"):
        put(cycle)
    assert rollback(serving, 1) == 4
    assert versions.versions(serving) == [1, 4]
    assert cycle_in(serving, 4) == "c1"
    said = versions.check(serving, 4)
    assert said["rolled_back"] == {"from": 3, "to": 1, "reason": "it sells less"}
    assert said["cycle"] == "c1"
    assert publish.quarantined(serving) == {"c2": "it sells less", "c3": "it sells less"}


def test_documents_are_rolled_back_with_the_model(serving, export, put: Put):
    publish.publish(export, serving, cycle="c1", at=AT, documents={"MODEL_CARD.md": b"# A model\n"})
    put("c2")
    assert (serving / str(rollback(serving, 1)) / "MODEL_CARD.md").read_bytes() == b"# A model\n"


def test_rolling_back_twice_is_rolling_back_once(serving, put: Put):
    put("c1"), put("c2")
    assert [rollback(serving, 1), rollback(serving, 1), rollback(serving, 3)] == [3, 3, 3]
    assert versions.versions(serving) == [1, 3]


def test_rolling_back_again_follows_what_was_published_since(serving, put: Put):
    put("c1"), put("c2")
    rollback(serving, 1)
    put("c3")
    assert rollback(serving, 1) == 5
    assert versions.versions(serving) == [1, 5]
    assert publish.quarantined(serving).keys() == {"c2", "c3"}
    assert put("c1") == 5


@pytest.mark.parametrize("to", [0, 2, 9])
def test_a_version_that_is_not_there_is_not_rolled_back_to(serving, put: Put, to: int):
    put("c1"), put("c2"), put("c3")
    take_back(serving, 2)
    with pytest.raises(InputError, match="published: 1, 3"):
        rollback(serving, to)
    assert versions.versions(serving) == [1, 3]


def test_a_damaged_version_is_not_rolled_back_to(serving, put: Put):
    put("c1"), put("c2")
    damage(serving, 1)
    with pytest.raises(InputError, match="bytes are not those that were published"):
        rollback(serving, 1)
    assert versions.newest(serving) == 2


@pytest.mark.parametrize("lost", ["damaged", "gone"])
def test_rolling_back_to_the_newest_helps_where_the_champion_disappeared(serving, put: Put, lost: str):
    put("c1"), put("c2")
    if lost == "gone":
        (serving / "2").rename(serving / "..2")
    else:
        damage(serving, 2)
    assert rollback(serving, 1) == 3
    assert cycle_in(serving, versions.newest(serving)) == "c1"


def test_a_full_disk_stops_a_rollback_before_anything_moved(serving, put: Put):
    put("c1"), put("c2")
    with no_room(100), pytest.raises(TryAgainError):
        rollback(serving, 1)
    assert versions.versions(serving) == [1, 2]
    assert publish.quarantined(serving) == {}


def test_old_versions_are_collected(serving, put: Put):
    for number in range(1, 7):
        put(f"c{number}")
    assert publish.collect(serving, keep=2, protected={1}) == [2, 3, 4]
    assert versions.versions(serving) == [1, 5, 6]
    assert publish.collect(serving, keep=2, protected={1}) == []
    assert names(serving) == {"1", "5", "6", ".journal.json"}


def test_the_newest_is_never_collected(serving, put: Put):
    put("c1"), put("c2")
    assert publish.collect(serving, keep=1) == [1]
    assert versions.versions(serving) == [2]
    with pytest.raises(InputError, match="at least 1"):
        publish.collect(serving, keep=0)


def test_a_damaged_newest_does_not_cost_the_last_that_is_whole(serving, put: Put):
    put("c1"), put("c2")
    (serving / "2" / "saved_model.pb").unlink()
    assert publish.collect(serving, keep=1) == []
    assert versions.versions(serving) == [1]


def test_what_was_not_published_here_is_not_collected(serving, put: Put):
    (serving / "1").mkdir(parents=True)
    (serving / "1" / "saved_model.pb").write_bytes(b"put there by hand")
    put("c1"), put("c2")
    assert publish.collect(serving, keep=1) == [2]
    assert (serving / "1" / "saved_model.pb").exists()


def test_what_was_set_aside_is_kept_as_long_as_versions(serving, put: Put):
    for number in range(1, 5):
        put(f"c{number}")
        take_back(serving, number)
    put("c5")
    assert publish.collect(serving, keep=2, protected={1}) == []
    assert names(serving / ".quarantine") == {"1", "3", "4"}
    assert publish.quarantined(serving).keys() == {"c1", "c2", "c3", "c4"}


def test_what_a_killed_process_left_is_collected(serving, put: Put):
    put("c1")
    (serving / ".collected-7" / "variables").mkdir(parents=True)
    (serving / ".staging-c2" / "variables").mkdir(parents=True)
    publish.collect(serving, keep=1)
    assert names(serving) == {"1", ".journal.json"}

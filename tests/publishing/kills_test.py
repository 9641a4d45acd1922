"""A slice of `make publishing-check`; and what it looks for is found."""

import random
import shutil

import pytest

from pipeline.publishing import publish
from tests.publishing import kills
from tests.shared import plain_export

AT = "2026-11-01T06:00:00+00:00"


@pytest.fixture
def served(tmp_path):
    """Two versions, both seen."""
    serving, seen = tmp_path / "serving", {}
    for number in (1, 2):
        export = plain_export.write(tmp_path / f"export-{number}", {"saved_model.pb": bytes([number])})
        publish.publish(export, serving, cycle=f"c{number}", at=AT)
    assert not [*kills.faults(serving, seen)]
    return serving, seen


@pytest.mark.slow
def test_publishing_that_is_killed_again_and_again_ends_like_the_undisturbed_one(tmp_path):
    found = kills.check(tmp_path, kills=5, publishes=4, draw=random.Random(0))
    assert (found.faults, found.kills) == ([], 5)


def test_half_a_version_is_found(served):
    (served[0] / "3").mkdir()
    assert [fault[:14] for fault in kills.faults(*served)] == ["half published"]


def test_two_versions_of_a_cycle_are_found(served, tmp_path):
    serving, seen = served
    publish.publish(tmp_path / "export-1", tmp_path / "other", cycle="c0", at=AT)
    publish.publish(tmp_path / "export-1", tmp_path / "other", cycle="c1", at=AT)
    publish.publish(tmp_path / "export-1", tmp_path / "other", cycle="c2", at=AT)
    (tmp_path / "other" / "3").rename(serving / "3")
    assert [*kills.faults(serving, seen)] == ["2 versions of c2"]


def test_a_version_that_changes_is_found(served, tmp_path):
    serving, seen = served
    publish.publish(tmp_path / "export-1", tmp_path / "other", cycle="c1", at="later")
    shutil.rmtree(serving / "1")
    (tmp_path / "other" / "1").rename(serving / "1")
    assert [*kills.faults(serving, seen)] == ["version 1 is another than before"]


def test_a_version_that_appears_below_another_is_found(served):
    serving, seen = served
    del seen[1]
    assert [*kills.faults(serving, seen)] == ["version 1 appeared below 2"]


def test_that_nothing_is_served_any_more_is_found(served):
    serving, seen = served
    for version in (1, 2):
        shutil.rmtree(serving / str(version))
    assert [*kills.faults(serving, seen)] == ["nothing is served any more"]

"""Whatever step is the last that a process makes, the next one ends as if nothing had happened."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from unittest import mock

import pytest

from pipeline.publishing import publish, versions
from tests.shared import plain_export
from tests.shared.fixtures.serving import AT, Put

# Whatever changes the disk, or makes it last.
STEPS = ("os.fsync", "os.mkdir", "os.rename", "os.replace", "os.unlink", "os.rmdir", "shutil.copyfile")

Act = Callable[[pathlib.Path], object]


def publish_another(serving: pathlib.Path) -> int:
    return publish.publish(serving.parent.parent / "export", serving, cycle="new", at=AT)


def take_back(serving: pathlib.Path) -> int | None:
    return publish.take_back(serving, 3, reason="slow", at=AT)


def take_back_above_a_damaged_one(serving: pathlib.Path) -> int | None:
    (serving / "2" / "saved_model.pb").unlink(missing_ok=True)
    return take_back(serving)


def rollback(serving: pathlib.Path) -> int:
    return publish.rollback(serving, to=1, reason="slow", at=AT)


def collect(serving: pathlib.Path) -> None:
    publish.collect(serving, keep=1)  # what it returns is less where another began


ACTS = [publish_another, take_back, take_back_above_a_damaged_one, rollback, collect]


@pytest.fixture
def three(serving, export, put: Put) -> pathlib.Path:
    for cycle in ("c1", "c2", "c3"):
        put(cycle)
    return serving


@pytest.mark.parametrize("act", ACTS)
def test_a_kill_at_any_step_is_as_if_there_was_none(three: pathlib.Path, tmp_path, act: Act):
    undisturbed = tmp_path / "undisturbed" / "serving" / "taxi"
    shutil.copytree(tmp_path / "export", undisturbed.parent.parent / "export")
    shutil.copytree(three, undisturbed)
    result = act(undisturbed)
    killed, step = True, 0
    while killed:
        step += 1
        serving = tmp_path / f"at-{step}" / "serving" / "taxi"
        shutil.copytree(tmp_path / "export", serving.parent.parent / "export")
        shutil.copytree(three, serving)
        killed = killed_at(step, lambda here=serving: act(here))
        for version in versions.versions(serving):
            versions.check(serving, version)
        assert versions.newest(serving) is not None
        assert act(serving) == result
        assert state(serving) == state(undisturbed), f"killed before step {step}"
    assert step > 10 or act is collect


def test_a_rollback_that_was_killed_is_finished_by_whoever_comes_next(three: pathlib.Path, tmp_path):
    export = plain_export.write(tmp_path / "next")
    outcomes = set()
    killed, step = True, 0
    while killed:
        step += 1
        serving = tmp_path / f"at-{step}"
        shutil.copytree(three, serving)
        killed = killed_at(step, lambda here=serving: rollback(here))
        publish.publish(export, serving, cycle="next", at=AT)
        outcomes.add((*versions.versions(serving), *sorted(publish.quarantined(serving))))
    assert outcomes == {(1, 2, 3, 4), (1, 4, 5, "c2", "c3")}  # not begun, or whole


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Whether a process that makes `act` came to that step, before which it was killed."""
    child = os.fork()
    if not child:
        left = [step]

        def counted(real: Callable) -> Callable:
            def call(*arguments: object, **named: object) -> object:
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
                return real(*arguments, **named)

            return call

        try:
            for name in STEPS:
                module, function = name.split(".")
                mock.patch(name, counted(getattr({"os": os, "shutil": shutil}[module], function))).start()
            act()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def state(serving: pathlib.Path) -> dict:
    """Everything that lies there; of the journal, what it says."""
    files = sorted(path for path in serving.rglob("*") if path.is_file())
    found = {path.relative_to(serving).as_posix(): path.read_bytes() for path in files}
    journal = json.loads(found.pop(".journal.json"))
    assert not journal["moves"]
    return {**found, "versions": journal["versions"]}

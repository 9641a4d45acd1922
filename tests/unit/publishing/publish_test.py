"""A version appears whole, under a number that no other ever had, whatever step a kill came after."""

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from unittest import mock

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.base.files import hold_directory
from pipeline.data.dataset import records
from pipeline.publishing import publish, versions
from tests.shared import plain_export
from tests.shared.fixtures.serving import AT, Put, names
from tests.shared.full_disk import no_room
from tests.shared.matrix import quick_cases


def refused(*_: object) -> None:
    raise InputError("model", received="NaN", expected="numbers", action="Do not serve it.")


def test_a_version_holds_the_export_its_documents_and_what_was_published(serving, export):
    version = publish.publish(export, serving, cycle="c1", at=AT, documents={"MODEL_CARD.md": b"# A model\n"})
    directory = versions.path_of(serving, version)
    assert (version, directory) == (1, serving / "1")
    records.open_export(directory)
    assert (directory / "MODEL_CARD.md").read_bytes() == b"# A model\n"
    said = versions.check(serving, 1)
    assert (said["version"], said["cycle"], said["at"]) == (1, "c1", AT)
    there = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    assert there == {*said["files"], versions.FILE_NAME}


def test_nothing_but_numbers_can_be_taken_for_a_version(serving, put: Put):
    put("c1")
    assert names(serving) == {"1", ".journal.json"}


def test_a_file_that_the_export_does_not_list_stays_behind(serving, export):
    (export / "core.1234").write_bytes(b"of a crash")
    publish.publish(export, serving, cycle="c1", at=AT)
    assert not (serving / "1" / "core.1234").exists()


def test_the_same_cycle_keeps_its_version(serving, put: Put):
    assert [put("c1"), put("c2"), put("c1"), put("c2")] == [1, 2, 1, 2]
    assert versions.versions(serving) == [1, 2]


def test_a_cycle_whose_version_was_damaged_gets_another_above(serving, put: Put):
    put("c1")
    (serving / "1" / "saved_model.pb").write_bytes(b"the gra.h")
    assert put("c1") == 2
    assert versions.versions(serving) == [2]
    assert names(serving / ".quarantine") == {"1"}
    assert publish.quarantined(serving) == {}


def test_the_whole_version_is_verified_before_it_has_its_number(serving, export):
    seen = []

    def verify(staged: pathlib.Path) -> None:
        versions.check_files(staged, versions.read(staged))
        seen.append((staged.name, versions.versions(serving)))

    publish.publish(export, serving, cycle="c1", at=AT, verify=verify)
    assert seen == [(".staging-c1", [])]


def test_what_verify_refuses_leaves_no_trace(serving, export, put: Put):
    put("c1")
    before = names(serving)
    with pytest.raises(InputError, match="NaN"):
        publish.publish(export, serving, cycle="c2", at=AT, verify=refused)
    assert names(serving) == before
    assert put("c2") == 2


def test_an_export_that_was_changed_is_not_published(serving, export):
    (export / "saved_model.pb").write_bytes(b"the gra.h")
    with pytest.raises(InputError, match=r"saved_model\.pb"):
        publish.publish(export, serving, cycle="c1", at=AT)
    assert versions.versions(serving) == []


def test_what_a_killed_process_staged_is_replaced(serving, put: Put):
    put("c1")
    for cycle in ("c2", "c9"):
        (serving / f".staging-{cycle}").mkdir()
        (serving / f".staging-{cycle}" / "saved_model.pb").write_bytes(b"the g")
    assert put("c2") == 2
    versions.check(serving, 2)
    assert not [name for name in names(serving) if name.startswith(".staging")]


def test_numbers_rise_above_whatever_lies_there(serving, put: Put):
    (serving / "0041").mkdir(parents=True)  # TensorFlow Serving reads it as 41
    (serving / "41.old").mkdir()
    assert put("c1") == 42
    assert versions.versions(serving) == [42]


def test_a_number_is_never_given_twice(serving, put: Put):
    for cycle in ("c1", "c2"):
        put(cycle)
    publish.take_back(serving, 2, reason="slow", at=AT)
    shutil.rmtree(serving / ".quarantine")
    shutil.rmtree(serving / "1")
    assert put("c3") == 3


@pytest.mark.parametrize("cycle", ["", "../c1", "c/1", ".c1", "c 1", "c" * 201])
def test_a_cycle_that_is_no_name_of_a_folder_is_refused(serving, export, cycle: str):
    with pytest.raises(InputError, match="cycle"):
        publish.publish(export, serving, cycle=cycle, at=AT)
    assert not serving.exists()


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "publication.json", "export.json", "../card.md", "a/b", ""]
)
def test_a_document_never_replaces_a_file_of_the_model(serving, export, name: str):
    with pytest.raises(InputError, match="document"):
        publish.publish(export, serving, cycle="c1", at=AT, documents={name: b"x"})
    assert versions.versions(serving) == []


def test_two_processes_do_not_publish_at_once(serving, export, put: Put):
    put("c1")
    with hold_directory(serving, thing="the other"), pytest.raises(TryAgainError, match="is writing to"):
        publish.publish(export, serving, cycle="c2", at=AT)
    assert put("c2") == 2


@pytest.mark.parametrize("room", [0, 20, 300, 500])  # no byte, the graph, the journal, the weights
def test_a_full_disk_leaves_nothing_half(serving, export, put: Put, room: int):
    put("c1")
    with no_room(room), pytest.raises(TryAgainError, match="disk that is full"):
        publish.publish(export, serving, cycle="c2", at=AT)
    assert names(serving) == {"1", ".journal.json"}
    assert put("c2") == 2


def test_an_altered_journal_is_not_guessed(serving, put: Put):
    put("c1")
    journal = serving / ".journal.json"
    journal.write_text(journal.read_text().replace("c1", "c2"))
    with pytest.raises(InputError, match=r"journal .*Restore it"):
        put("c3")


def test_a_copy_of_the_directory_without_its_journal_goes_on(serving, put: Put):
    put("c1"), put("c2")
    publish.take_back(serving, 2, reason="slow", at=AT)
    (serving / ".journal.json").unlink()
    assert publish.quarantined(serving).keys() == {"c2"}
    assert (put("c1"), put("c3")) == (1, 3)


def test_above_the_largest_number_that_a_server_reads_nothing_is_published(serving, put: Put):
    put("c1")
    (serving / str(versions.LARGEST)).mkdir()
    with pytest.raises(InputError, match=rf"version {versions.LARGEST}, the largest"):
        put("c2")
    (serving / str(versions.LARGEST)).rmdir()
    assert put("c2") == 2


# Whatever step is the last that a process makes, the next one ends as if nothing had happened.
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


@pytest.mark.parametrize("act", quick_cases(ACTS, [publish_another, take_back, collect]))
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


@pytest.mark.slow
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

"""Files are read and written whole; a failed read is tried again; a directory is one process at a time."""

import errno
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.base.files import RETRY_WAITS_S, hold_directory, retry, unreadable
from tests.shared.full_disk import no_room


def test_a_file_is_read_whole(tmp_path: pathlib.Path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert files.read_bytes(tmp_path / "link") == b"content"


def test_pipes_and_devices_are_not_read(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(files.NotOrdinaryError, match="not an ordinary file"):
            files.read_bytes(tmp_path / name)


def test_directories_and_what_is_missing_are_told_as_by_opening_them(tmp_path: pathlib.Path):
    with pytest.raises(IsADirectoryError):
        files.read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "nothing")


def test_a_file_that_says_no_size_is_read_to_its_end(tmp_path: pathlib.Path):
    with pathlib.Path("/proc/self/status").open("rb") as file:
        start = file.readline()
    content = files.read_bytes("/proc/self/status")
    assert content.startswith(start)
    assert content.endswith(b"\n")
    (tmp_path / "empty").touch()
    assert files.read_bytes(tmp_path / "empty") == b""


def test_a_file_that_one_read_may_not_give_is_read_whole(tmp_path: pathlib.Path, monkeypatch):
    monkeypatch.setattr(files, "_AT_ONCE_BYTES", 7)
    (tmp_path / "file").write_bytes(b"content")
    content, status = files.read(tmp_path / "file")
    assert content == b"content"
    assert status.st_size == 7


def test_files_are_opened_ahead_and_in_order(tmp_path, monkeypatch):
    paths = [str(tmp_path / str(number)) for number in range(40)]
    for path in paths:
        pathlib.Path(path).write_text(path)
    advised = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, *told: advised.append(file), raising=False)
    before = len(list(pathlib.Path("/proc/self/fd").iterdir()))
    read = [files.read_open(file, "a file")[0].decode() for file in files.opened_ahead(paths)]
    assert read == paths
    assert len(advised) == len(paths)
    assert len(set(advised)) == 16
    pathlib.Path(paths[20]).unlink()
    with pytest.raises(FileNotFoundError) as raised:
        list(files.opened_ahead(paths))
    assert raised.value.filename == paths[20]
    assert len(list(pathlib.Path("/proc/self/fd").iterdir())) == before


def test_json_is_written_with_its_directory_and_nothing_beside_it(tmp_path):
    files.write_json(tmp_path / "new" / "run.json", {"a": [1, 2]})
    assert json.loads((tmp_path / "new" / "run.json").read_text()) == {"a": [1, 2]}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.json"]


def test_json_has_null_for_what_is_not_a_number(tmp_path):
    files.write_json(tmp_path / "test.json", {"loss": float("nan"), "each": ({"auc": float("inf")}, 1.5)})
    text = (tmp_path / "test.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"loss": None, "each": [{"auc": None}, 1.5]}


def test_a_write_that_fails_leaves_the_old_content(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        files.write_bytes(path, "not bytes")  # fails after the draft was opened
    assert path.read_text() == "old"


def test_a_pipe_where_the_draft_goes_is_not_waited_for_and_a_link_not_followed(tmp_path):
    os.mkfifo(tmp_path / "run.json.tmp")
    (tmp_path / "report.html.tmp").symlink_to(tmp_path / "run.json")
    files.write_bytes(tmp_path / "run.json", b"new")
    files.write_bytes(tmp_path / "report.html", b"page")
    found = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert found == {"run.json": "new", "report.html": "page"}


def test_a_disk_that_is_full_is_told_with_the_file_and_leaves_the_old_content(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("old")
    with no_room(5), pytest.raises(OSError) as told:
        files.write_bytes(path, b"more than five")
    assert (told.value.errno, told.value.filename) == (errno.EFBIG, str(path))
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("run.json", "old")]


# A read that fails is tried again, with waits that grow; where another try gives the same, it is not.
ALWAYS = errno.ENOENT, errno.EACCES, errno.EISDIR


def failing(times: int, number: int):
    """A read that fails so often, with this error, and then gives 7; and the waits between the tries."""
    left, waits = [times], []

    def read() -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(number, "no luck")
        return 7

    return read, waits


@pytest.mark.parametrize("times", [0, 1, len(RETRY_WAITS_S)])
def test_a_read_is_tried_again(times: int):
    read, waits = failing(times, errno.EIO)
    assert retry(read, wait=waits.append) == 7
    assert waits == list(files.RETRY_WAITS_S[:times])


def test_the_last_try_raises():
    read, waits = failing(len(RETRY_WAITS_S) + 1, errno.EIO)
    with pytest.raises(OSError, match="no luck"):
        retry(read, wait=waits.append)
    assert waits == list(files.RETRY_WAITS_S)


@pytest.mark.parametrize("number", (*ALWAYS, errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG))
def test_what_stays_as_it_is_is_not_tried_again(number: int):
    read, waits = failing(1, number)
    with pytest.raises(OSError, match="no luck"):
        retry(read, wait=waits.append)
    assert waits == []


def test_of_several_the_one_that_fails_is_tried_again_alone():
    read, left = [], [2]

    def all_of(items: list[int]) -> int:
        read.append(list(items))
        if 3 in items and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "no luck", "3")
        return sum(items)

    assert files.one_by_one(all_of, [1, 3]) == [1, 3]
    assert read == [[1, 3], [1], [3], [3]]
    assert files.one_by_one(all_of, [1, 3]) == [4]


def test_the_error_names_the_file():
    assert "dataset file /d/x: received no luck, after 6 tries" in str(
        unreadable("/d/x", OSError(errno.EIO, "no luck"))
    )


@pytest.mark.parametrize("waits", [0, 64], ids=["in memory", "over the network"])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 10_000])
def test_every_item_is_asked_about_once_and_in_order(monkeypatch, waits: int, count: int):
    told = iter(range(0, 1 << 20, waits or 1)) if waits else iter(lambda: 0, None)
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    turns = list(files.in_turns(list, list(range(count))))
    assert [item for turn in turns for item in turn] == list(range(count))
    assert all(len(turn) <= 64 for turn in turns)


def test_what_is_waited_for_overlaps(monkeypatch):
    """Eight turns wait for each other, which they never could one after the other."""
    told = iter(range(0, 1 << 20, 64))
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    together = threading.Barrier(8, timeout=60)

    def ask(turn: list[int]) -> int:
        return 0 if 0 in turn else together.wait()

    assert len(list(files.in_turns(ask, list(range(64 * 9))))) == 9


def test_an_error_ends_it():
    def ask(turn: list[int]) -> None:
        raise OSError(turn[-1])

    with pytest.raises(OSError, match="63"):
        list(files.in_turns(ask, list(range(1_000))))


def test_switches_that_take_no_time_are_no_waits(monkeypatch):
    """Answers that are there, though the thread was switched off now and then: threads would cost twice."""
    told = iter(range(0, 1 << 20, 64))
    monkeypatch.setattr(files, "_waits", lambda: next(told))
    monkeypatch.setattr(time, "thread_time", time.perf_counter)
    threads = set()

    def ask(turn: list[int]) -> None:
        threads.add(threading.get_ident())
        sum(range(100_000))

    assert len(list(files.in_turns(ask, list(range(64 * 200))))) == 200
    assert threads == {threading.get_ident()}


# A directory is one process's at a time, and it is told whose.
HOLD = (
    "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX); print(); input()"
)


def test_who_holds_it_is_told(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        whose = (
            rf"--workdir=x: received a directory that process {other.pid} of host {socket.gethostname()}, "
        )
        with (
            pytest.raises(InputError, match=rf"{whose}running since 20\d\d-"),
            hold_directory(tmp_path, thing="--workdir=x"),
        ):
            pass
        other.kill()
        other.wait()
        with hold_directory(tmp_path, thing="--workdir=x"):  # what died holds nothing
            pass


def test_it_is_free_again_after_an_error(tmp_path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), hold_directory(tmp_path, thing="--workdir"):
            raise ZeroDivisionError
    assert os.listdir(tmp_path) == []  # noqa: PTH208

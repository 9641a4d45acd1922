"""audit.jsonl: what was done to this retraining and why, a line each, only ever added to."""

import datetime
import fcntl
import json
import os
import pathlib
from collections.abc import Iterator, Mapping

from pipeline.data import ordinary_files, self_digest
from pipeline.data.errors import InputError
from pipeline.release.cycles.records.receipts import fsync_folder

_CLOCK_MAY_STEP = datetime.timedelta(minutes=2)  # back, where machines that take turns disagree


def entries(path: pathlib.Path) -> list[dict]:
    """Every entry, the oldest first. A line that a killed process left unfinished at the end counts as none.

    Raises:
      InputError: another line is damaged.
    """
    return list(_parsed(path, _content(path)))


def add(path: pathlib.Path, act: str, *, at: datetime.datetime, **said: object) -> None:
    """Adds an entry, which is on the disk when this returns.

    Args:
      act: such as "held".
    """
    entry = {"at": at.isoformat(), "act": act, **json.loads(json.dumps(said, default=str))}
    _append(path, json.dumps(self_digest.with_digest(entry)).encode() + b"\n")


def add_once(path: pathlib.Path, act: str, *, at: datetime.datetime, **said: object) -> None:
    """As `add`, unless an entry says the same but for its time.

    So a process that was killed behind its entry may do the act again.
    """
    entry = {"act": act, **json.loads(json.dumps(said, default=str))}
    if entry not in (_without_time(each) for each in entries(path)):
        add(path, act, at=at, **said)


def last(path: pathlib.Path, act: str, **said: object) -> dict | None:
    """The newest entry of an act that says this; None where there is none."""
    found = [
        entry
        for entry in entries(path)
        if entry["act"] == act and all(entry.get(key) == value for key, value in said.items())
    ]
    return found[-1] if found else None


def check_clock(path: pathlib.Path, now: datetime.datetime) -> None:
    """Raises InputError where the clock is behind what was written: ages and schedules would be wrong."""
    times = [datetime.datetime.fromisoformat(entry["at"]) for entry in entries(path)]
    if times and now < max(times) - _CLOCK_MAY_STEP:
        raise InputError(
            "the clock",
            received=now.isoformat(timespec="seconds"),
            expected=f"a time after {max(times).isoformat(timespec='seconds')}, the last entry of {path}",
            action="Set the clock of this machine. What is served stays as it is.",
        )


def _without_time(entry: Mapping[str, object]) -> dict:
    return {key: value for key, value in entry.items() if key != "at"}


def _content(path: pathlib.Path) -> bytes:
    try:
        return ordinary_files.read_bytes(path)
    except FileNotFoundError:
        return b""


def _parsed(path: pathlib.Path, content: bytes) -> Iterator[dict]:
    lines = content.split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            self_digest.check(entry)
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise InputError(
                f"line {number} of {path}",
                received=f"other content than was written ({error})",
                expected="an entry that pipeline.retrain wrote",
                action="Restore the file from a copy.",
            ) from None
        del entry[self_digest.KEY]
        yield entry


def _append(path: pathlib.Path, line: bytes) -> None:
    """Writes behind the last whole line: one that a killed process left unfinished is cut off first.

    `hold` may write while a cycle runs, so each waits for the other.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644)  # a pipe is not waited for
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        whole = _content(path).rfind(b"\n") + 1
        os.ftruncate(descriptor, whole)
        try:
            os.pwrite(descriptor, line, whole)
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, whole)  # of a full disk: no half line stays
            error.filename = str(path)
            raise
    finally:
        os.close(descriptor)
    fsync_folder(path.parent)

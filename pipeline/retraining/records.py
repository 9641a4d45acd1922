"""audit.jsonl: what was done to this retraining and why, a line each, only ever added to."""

import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from pipeline.base import documents, files
from pipeline.base.cli import flags
from pipeline.base.errors import InputError

_CLOCK_MAY_STEP = datetime.timedelta(minutes=2)  # back, where machines that take turns disagree


def audit_entries(path: pathlib.Path) -> list[dict]:
    """Every entry, the oldest first. A line that a killed process left unfinished at the end counts as none.

    Raises:
      InputError: another line is damaged.
    """
    return list(_parsed(path, _content(path)))


def add_entry(path: pathlib.Path, act: str, *, at: datetime.datetime, **said: object) -> None:
    """Adds an entry, which is on the disk when this returns.

    Args:
      act: such as "held".
    """
    entry = {"at": at.isoformat(), "act": act, **json.loads(json.dumps(said, default=str))}
    _append(path, json.dumps(documents.with_digest(entry)).encode() + b"\n")


def add_entry_once(path: pathlib.Path, act: str, *, at: datetime.datetime, **said: object) -> None:
    """As `add`, unless an entry says the same but for its time.

    So a process that was killed behind its entry may do the act again.
    """
    entry = {"act": act, **json.loads(json.dumps(said, default=str))}
    if entry not in (_without_time(each) for each in audit_entries(path)):
        add_entry(path, act, at=at, **said)


def last_entry(path: pathlib.Path, act: str, **said: object) -> dict | None:
    """The newest entry of an act that says this; None where there is none."""
    found = [
        entry
        for entry in audit_entries(path)
        if entry["act"] == act and all(entry.get(key) == value for key, value in said.items())
    ]
    return found[-1] if found else None


def check_clock(path: pathlib.Path, now: datetime.datetime) -> None:
    """Raises InputError where the clock is behind what was written: ages and schedules would be wrong."""
    times = [datetime.datetime.fromisoformat(entry["at"]) for entry in audit_entries(path)]
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
        return files.read_bytes(path)
    except FileNotFoundError:
        return b""


def _parsed(path: pathlib.Path, content: bytes) -> Iterator[dict]:
    lines = content.split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            entry = documents.loads(line)
        except documents.UNREADABLE as error:
            raise InputError(
                f"line {number} of {path}",
                received=f"other content than was written ({error})",
                expected="an entry that pipeline.retrain wrote",
                action="Restore the file from a copy.",
            ) from None
        del entry[documents.KEY]
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
    files.synchronise(path.parent)


# --- Receipts: JSON files that are written once, whole, and carry their own digest.


_OF = "receipt_of"  # a copy at another place says of itself that it is one


def write_result(path: pathlib.Path, document: Mapping[str, object]) -> dict:
    """Writes a receipt, whole and on the disk; returns what it says, as `read` gives it.

    One that is there already stays as it is, and is returned: what was done once is not told otherwise later.
    """
    if (there := read_result(path)) is not None:
        return there
    plain = json.loads(json.dumps(document, default=str))
    documents.write(path, {**plain, _OF: _of(path)})
    files.synchronise(path.parent)
    return plain


def read_result(path: pathlib.Path) -> dict | None:
    """What a receipt says; None where there is none.

    Raises:
      InputError: it is damaged.
    """
    try:
        document = documents.read(path)
        if document.pop(_OF) != _of(path):
            raise ValueError("it is the receipt of something else")
    except FileNotFoundError:
        return None
    except documents.UNREADABLE as error:
        raise InputError(
            f"receipt {path}",
            received=f"other content than was written ({error})",
            expected="what pipeline.retrain wrote there",
            action="Restore the file from a copy.",
        ) from None
    del document[documents.KEY]
    return document


def _of(path: pathlib.Path) -> str:
    """Which receipt it is: the folder's name and its own. A root may be moved."""
    return f"{path.parent.name}/{path.name}"


# --- Where everything of a retraining is: the folder that --root names.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Root:
    """Paths below --root. `name` is the model's, as the config calls it."""

    path: pathlib.Path
    name: str

    @property
    def serving(self) -> pathlib.Path:
        """What TensorFlow Serving watches: a folder a version."""
        return self.path / "serving" / self.name

    @property
    def audit(self) -> pathlib.Path:
        return self.path / "audit.jsonl"

    @property
    def hold(self) -> pathlib.Path:
        return self.path / "HOLD"

    @property
    def spans(self) -> pathlib.Path:
        """Datasets of spans, and a receipt beside each."""
        return self.path / "spans"

    @property
    def cycles(self) -> pathlib.Path:
        return self.path / "cycles"

    @property
    def digests(self) -> pathlib.Path:
        """Digests of raw files by size and times, so that they are read once. It may be deleted."""
        return self.path / "cache" / "raw_digests.json"

    def cycle(self, cycle: str) -> pathlib.Path:
        return self.cycles / cycle

    def absolute(self, path: str) -> pathlib.Path:
        """A path of the config, which is relative to the root."""
        return self.path / path


@contextlib.contextmanager
def open_root(path: pathlib.Path, *, name: str) -> Iterator[Root]:
    """The root while no other process retrains in it.

    Raises:
      InputError: there is no such folder, or the name cannot be a folder's.
      TryAgainError: another process retrains in it (exit code 75).
    """
    root = existing_root(path, name=name)
    with files.hold_directory(path, thing=f"--root={path}"):
        yield root


def existing_root(path: pathlib.Path, *, name: str) -> Root:
    """The root, to look at only. Raises as `opened`, but never TryAgainError."""
    if not path.is_dir():
        raise InputError(
            f"--root={path}",
            received="a file" if path.exists() else "no such folder",
            expected="the folder of this retraining, with the raw data and the schema in it",
            action="Create it, or correct the path.",
        )
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise InputError(
            "config.name",
            received=repr(name),
            expected="the name of a folder, such as taxi",
            action="Correct it.",
        )
    return Root(path=flags.absolute(path), name=name)


# --- Cycles that were begun, and how each ended: read from their receipts.


PLAN, ENDED, FAILED = "plan.json", "ended.json", "failed.json"

PROMOTE, REJECT, UNDECIDED = "PROMOTE", "REJECT", "UNDECIDED"
TAKEN_BACK, SUPERSEDED = "TAKEN_BACK", "SUPERSEDED"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Begun:
    """A cycle: its plan, and its end or failure where it has one."""

    id: str
    folder: pathlib.Path
    plan: Mapping
    end: Mapping | None
    failure: Mapping | None

    @property
    def has_judged(self) -> bool:
        """Whether it came to a decision."""
        return bool(self.end) and self.end["decision"] != SUPERSEDED

    @property
    def spans(self) -> set[tuple[str, str]]:
        """Name and fingerprint of each span it is about."""
        return {(span["name"], span["fingerprint"]) for span in self.plan["spans"]}

    @property
    def decision(self) -> str:
        """How it ended, for people."""
        return self.end["decision"] if self.end else "FAILED" if self.failure else "unfinished"


def cycle_history(root: Root) -> list[Begun]:
    """Every cycle that was begun, the oldest first. Raises InputError for a damaged receipt."""
    folders = [path for path in root.cycles.iterdir() if path.is_dir()] if root.cycles.is_dir() else []
    found = [begun for folder in folders if (begun := read_cycle(folder))]
    return sorted(found, key=lambda each: (each.plan["at"], each.id))


def read_cycle(folder: pathlib.Path) -> Begun | None:
    """The cycle in a folder; None where it was never begun."""
    plan = read_result(folder / PLAN)
    if plan is None:
        return None
    return Begun(
        id=folder.name,
        folder=folder,
        plan=plan,
        end=read_result(folder / ENDED),
        failure=read_result(folder / FAILED),
    )


# --- HOLD: while the file is there, nothing is trained or published.


RELEASED = "released"


def why_on_hold(root: Root) -> dict | None:
    """Why it is held: {"at", "by", "reason", …}; None where it is not. A file of a person's counts too."""
    try:
        text = files.read_bytes(root.hold).decode(errors="replace")
    except FileNotFoundError:
        return None
    try:
        return _told(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {"by": "a file", "reason": " ".join(text.split()) or "no reason given", "at": ""}


def _told(found: Mapping) -> dict:
    """What `put` wrote; raises TypeError or ValueError for what a person wrote in another form."""
    told = {"by": "", "reason": "", "at": "", "spans": [], **found}
    if not all(isinstance(told[key], str) for key in ("by", "reason", "at")):
        raise TypeError
    for name, fingerprint in told["spans"]:
        if not (isinstance(name, str) and isinstance(fingerprint, str)):
            raise TypeError
    return told


def put_hold(
    root: Root, *, reason: str, by: str, at: datetime.datetime, spans: Sequence[Sequence[str]] = ()
) -> None:
    """Holds; where it is held already, that reason stays.

    Args:
      by: "a person" or "drift".
      spans: name and fingerprint of each span that a person should look at.
    """
    if why_on_hold(root):
        return
    add_entry(root.audit, "held", at=at, reason=reason, by=by, spans=spans)
    files.write_json(
        root.hold, {"at": at.isoformat(), "by": by, "reason": reason, "spans": [list(each) for each in spans]}
    )
    files.synchronise(root.path)


def release_hold(root: Root, *, reason: str, at: datetime.datetime) -> dict:
    """Ends the hold, and accepts the spans it was for; returns why it was held.

    Raises:
      InputError: it is not held.
    """
    held = why_on_hold(root)
    if held is None:
        raise InputError(
            f"{root.hold}",
            received="no such file: nothing is held",
            expected="a retraining that is held",
            action="There is nothing to release; --help lists what can be done.",
        )
    add_entry(root.audit, RELEASED, at=at, reason=reason, was=held, spans=held.get("spans", []))
    root.hold.unlink()
    files.synchronise(root.path)
    return held


def accepted_spans(entries: Sequence[dict]) -> set[tuple[str, str]]:
    """Name and fingerprint of each span that a person has let pass, of the entries of the audit log."""
    return {tuple(span) for entry in entries if entry["act"] == RELEASED for span in entry.get("spans", [])}

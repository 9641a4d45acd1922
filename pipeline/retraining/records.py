"""Records of retraining: the audit log, stage results, paths, the history of cycles, clock and HOLD."""

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
from pipeline.publishing import versions

# --- audit.jsonl: a line for each operation and its reason; lines are only ever added.


def audit_entries(path: pathlib.Path, *, damage: list[str] | None = None) -> list[dict]:
    """Reads every entry, the oldest first. An unfinished last line of a killed process does not count.

    Args:
      damage: gets the errors of damaged lines, which are then left out.

    Raises:
      InputError: another line is damaged, and there is no `damage`.
    """
    return list(_parse(path, _content(path), damage))


def add_entry(path: pathlib.Path, operation: str, *, at: datetime.datetime, **values: object) -> None:
    """Adds an entry for an operation such as "held"; it is on the disk when this returns."""
    entry = {"at": at.isoformat(), "act": operation, **json.loads(json.dumps(values, default=str))}
    _append(path, json.dumps(documents.with_digest(entry)).encode() + b"\n")


def add_entry_once(path: pathlib.Path, operation: str, *, at: datetime.datetime, **values: object) -> None:
    """Adds an entry unless there is one that differs only in its time.

    So an operation whose process was killed after its entry may be repeated.
    """
    entry = {"act": operation, **json.loads(json.dumps(values, default=str))}
    if all({**each, "at": None} != {**entry, "at": None} for each in audit_entries(path)):
        add_entry(path, operation, at=at, **values)


def last_entry(path: pathlib.Path, operation: str, **values: object) -> dict | None:
    """Returns the newest entry of an operation with these values; None where there is none."""
    wanted = {"act": operation, **values}.items()
    found = [entry for entry in audit_entries(path) if all(entry.get(key) == value for key, value in wanted)]
    return found[-1] if found else None


def _content(path: pathlib.Path) -> bytes:
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        return b""


def _parse(path: pathlib.Path, content: bytes, damage: list[str] | None) -> Iterator[dict]:
    lines = content.split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            entry = documents.loads(line)
        except documents.UNREADABLE as error:
            found = _damaged(f"line {number} of {path}", error, "delete the line: only what it says is lost.")
            if damage is None:
                raise found from None
            damage.append(str(found))
            continue
        del entry[documents.KEY]
        yield entry


def _append(path: pathlib.Path, line: bytes) -> None:
    """Writes after the last whole line; first cuts off an unfinished one of a killed process.

    `hold` may write while a cycle runs, so each waits for the other.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o644)  # does not wait for a pipe
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        whole = _content(path).rfind(b"\n") + 1
        os.ftruncate(descriptor, whole)
        try:
            os.pwrite(descriptor, line, whole)
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, whole)  # a full disk must not leave half a line
            error.filename = str(path)
            raise
    finally:
        os.close(descriptor)
    files.synchronise(path.parent)


# --- Stage results: JSON files that are written once, whole, with their own digest.


_OF = "receipt_of"  # the key of the original place, which reveals a copy


def write_result(path: pathlib.Path, document: Mapping[str, object], *, anew: bool = False) -> dict:
    """Writes a stage result, whole and on the disk; returns it as `read_result` does.

    If the result exists, it stays as it is and is returned: a stage is not recorded twice, except `anew`.
    """
    if not anew and (there := read_result(path)) is not None:
        return there
    plain = json.loads(json.dumps(document, default=str))
    documents.write(path, {**plain, _OF: _of(path)})
    files.synchronise(path.parent)
    return plain


def read_result(path: pathlib.Path) -> dict | None:
    """Reads a stage result; returns None where there is none.

    Raises:
      InputError: it is damaged.
    """
    try:
        document = documents.read(path)
        if document.pop(_OF) != _of(path):
            raise ValueError("it is the result of something else")
    except FileNotFoundError:
        return None
    except documents.UNREADABLE as error:
        again = "delete it: what it recorded is looked at, or done, again."
        raise _damaged(f"stage result {path}", error, again) from None
    del document[documents.KEY]
    return document


def _damaged(thing: str, error: Exception, otherwise: str) -> InputError:
    return InputError(
        thing,
        received=f"other content than was written ({error})",
        expected="what pipeline.retrain wrote there",
        action=f"Restore the file from a copy; or {otherwise}",
    )


def _of(path: pathlib.Path) -> str:
    """Returns the name of a result with the name of its folder, without the root, which may be moved."""
    return f"{path.parent.name}/{path.name}"


# --- The paths of a retraining, below --root.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Root:
    """Paths below --root. `name` is the model's, as the config calls it."""

    path: pathlib.Path
    name: str

    @property
    def serving(self) -> pathlib.Path:
        """The folder that TensorFlow Serving watches, with a folder for each version."""
        return self.path / "serving" / self.name

    @property
    def audit(self) -> pathlib.Path:
        return self.path / "audit.jsonl"

    @property
    def hold(self) -> pathlib.Path:
        return self.path / "HOLD"

    @property
    def spans(self) -> pathlib.Path:
        """The datasets of spans, with the result of the conversion beside each."""
        return self.path / "spans"

    @property
    def cycles(self) -> pathlib.Path:
        return self.path / "cycles"

    @property
    def digests(self) -> pathlib.Path:
        """A cache of the digests of raw files, by size and times. It may be deleted."""
        return self.path / "cache" / "raw_digests.json"

    def cycle(self, cycle: str) -> pathlib.Path:
        return self.cycles / cycle

    def absolute(self, path: str) -> pathlib.Path:
        """Returns the absolute path of a path in the config, which is relative to the root."""
        return self.path / path


@contextlib.contextmanager
def open_root(path: pathlib.Path, *, name: str) -> Iterator[Root]:
    """Yields the root, and keeps other processes from retraining in it.

    Raises:
      InputError: there is no such folder, or the name cannot be the name of a folder.
      TryAgainError: another process retrains in it (exit code 75).
    """
    root = existing_root(path, name=name)
    with files.hold_directory(path, thing=f"--root={path}"):
        yield root


def existing_root(path: pathlib.Path, *, name: str) -> Root:
    """Returns the root for reading only. Raises as `open_root` does, but never TryAgainError."""
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


# --- The history of cycles: how each started and ended, according to their results.


PLAN, ENDED, FAILED = "plan.json", "ended.json", "failed.json"

PROMOTE, REJECT, UNDECIDED = "PROMOTE", "REJECT", "UNDECIDED"
TAKEN_BACK, SUPERSEDED = "TAKEN_BACK", "SUPERSEDED"
RETRIED = "retried"  # the entry of a person who tries a failed cycle again


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cycle:
    """A cycle: its plan, and its end or failure where it has one."""

    id: str
    folder: pathlib.Path
    plan: Mapping
    end: Mapping | None
    failure: Mapping | None

    @property
    def has_decided(self) -> bool:
        """Whether the cycle came to a decision."""
        return bool(self.end) and self.end["decision"] != SUPERSEDED

    @property
    def spans(self) -> set[tuple[str, str]]:
        """The name and fingerprint of each span of the cycle."""
        return {(span["name"], span["fingerprint"]) for span in self.plan["spans"]}

    @property
    def decision(self) -> str:
        """The outcome of the cycle, for people."""
        return self.end["decision"] if self.end else "FAILED" if self.failure else "unfinished"


def cycle_history(root: Root, *, damage: list[str] | None = None) -> list[Cycle]:
    """Returns every cycle, the oldest first; its plan has the time that `accept_clock` gave it.

    Args:
      damage: gets the errors of damaged results, which then count as absent.

    Raises:
      InputError: a result is damaged, and there is no `damage`.
    """
    folders = [path for path in root.cycles.iterdir() if path.is_dir()] if root.cycles.is_dir() else []
    found = [cycle for folder in folders if (cycle := read_cycle(folder, damage=damage))]
    times = corrected_times(audit_entries(root.audit, damage=[]))["cycles"]
    timed = [
        dataclasses.replace(cycle, plan={**cycle.plan, "at": times[cycle.id]}) if cycle.id in times else cycle
        for cycle in found
    ]
    recorded = {cycle.id: cycle.plan["at"] for cycle in found}
    return sorted(timed, key=lambda each: (each.plan["at"], recorded[each.id], each.id))


def read_cycle(folder: pathlib.Path, *, damage: list[str] | None = None) -> Cycle | None:
    """Reads the cycle in a folder; returns None where none was started. `damage` as in cycle_history."""

    def read(name: str) -> dict | None:
        try:
            return read_result(folder / name)
        except InputError as error:
            if damage is None:
                raise
            damage.append(str(error))
            return None

    plan = read(PLAN)
    if plan is None:
        return None
    return Cycle(id=folder.name, folder=folder, plan=plan, end=read(ENDED), failure=read(FAILED))


def write_end(
    folder: pathlib.Path,
    decision: str,
    *,
    at: datetime.datetime,
    version: int | None = None,
    reasons: Sequence[str],
) -> dict:
    """Writes and returns the end of the cycle in a folder, its last result."""
    promoted = decision == PROMOTE and version is not None
    end = {"decision": decision, "version": version, "promoted": promoted, "reasons": reasons}
    return write_result(folder / ENDED, {"at": at.isoformat(), **end})


def spans_of(plan: Mapping, role: str) -> list[Mapping]:
    """Returns the spans of a plan with a role, "training" or "holdout", in order."""
    return [span for span in plan["spans"] if role in span["roles"]]


# --- The clock: records with a time ahead of it would stop every schedule and age until that time.


# The clock may go back by this much, where machines that take turns disagree.
_CLOCK_MAY_STEP = datetime.timedelta(minutes=2)
_CLOCK = "clock"  # entry of a person who confirmed the clock: earlier entries had the wrong time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ahead:
    """Cycles and versions whose time is still to come; `last` is the latest time of any record, ISO 8601."""

    last: str
    cycles: tuple[str, ...]
    versions: tuple[int, ...]


def ahead_of_clock(root: Root, now: datetime.datetime) -> Ahead | None:
    """Returns the cycles and versions with a time ahead of `now`; None where there are none."""
    entries = audit_entries(root.audit)
    since = max((number for number, entry in enumerate(entries) if entry["act"] == _CLOCK), default=0)
    logged = [entry["at"] for entry in entries[since:]]
    cycles = {cycle.id: cycle.plan["at"] for cycle in cycle_history(root)}
    published = {version: document["at"] for version, document in publications(root).items()}

    def is_ahead(at: str) -> bool:
        return datetime.datetime.fromisoformat(at) > now + _CLOCK_MAY_STEP

    times = [at for at in (*logged, *cycles.values(), *published.values()) if is_ahead(at)]
    if not times:
        return None
    return Ahead(
        last=max(times, key=datetime.datetime.fromisoformat),
        cycles=tuple(cycle for cycle, at in cycles.items() if is_ahead(at)),
        versions=tuple(version for version, at in published.items() if is_ahead(at)),
    )


def check_clock(root: Root, now: datetime.datetime) -> None:
    """Raises InputError where the clock is behind the records: ages and schedules would be wrong."""
    if ahead := ahead_of_clock(root, now):
        raise InputError(
            "the clock",
            received=now.isoformat(timespec="seconds"),
            expected=f"a time after {ahead.last[:19]}, the latest in {root.audit}, cycles/ and serving/",
            action="Set the clock of this machine. If it is right, run `pipeline.retrain clock --reason=…`: "
            "then what was recorded ahead of it counts as done now. The served version stays as it is.",
        )


def accept_clock(root: Root, *, reason: str, at: datetime.datetime) -> Ahead:
    """Makes records with a time ahead of the clock count as made `at` the given time; returns them.

    Raises:
      InputError: nothing is ahead.
    """
    ahead = ahead_of_clock(root, at)
    if ahead is None:
        raise InputError(
            "the clock",
            received=f"{at.isoformat(timespec='seconds')}; all records of {root.path} are earlier",
            expected="records ahead of the clock",
            action="There is nothing to accept; `pipeline.retrain status` shows what is there.",
        )
    add_entry(root.audit, _CLOCK, at=at, reason=reason, **dataclasses.asdict(ahead))
    return ahead


def corrected_times(entries: Sequence[Mapping]) -> dict[str, dict]:
    """Returns the times, ISO 8601, that `accept_clock` gave to `cycles`, by id, and `versions`, by number."""
    found = {"cycles": {}, "versions": {}}
    for entry in entries:
        if entry["act"] == _CLOCK:
            for kind, times in found.items():
                times.update(dict.fromkeys(entry[kind], entry["at"]))
    return found


def publications(root: Root) -> dict[int, dict]:
    """Returns the publication.json of each whole version, with the time that `accept_clock` gave it."""
    times = corrected_times(audit_entries(root.audit, damage=[]))["versions"]
    found = {}
    for version in versions.versions(root.serving):
        with contextlib.suppress(InputError):  # the version was removed in the meantime
            document = versions.published(root.serving, version)
            found[version] = {**document, "at": times.get(version, document["at"])}
    return found


# --- HOLD: while the file is there, nothing is trained or published.


RELEASED = "released"


def why_on_hold(root: Root) -> dict | None:
    """Returns {"at", "by", "reason", …} where retraining is held; else None. A person's file counts, too."""
    try:
        text = files.read_bytes(root.hold).decode(errors="replace")
    except FileNotFoundError:
        return None
    try:
        return _check_hold(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return {"by": "a file", "reason": " ".join(text.split()) or "no reason given", "at": ""}


def _check_hold(found: Mapping) -> dict:
    """Returns what `put_hold` wrote; raises TypeError or ValueError for a person's file of another form."""
    hold = {"by": "", "reason": "", "at": "", "spans": [], **found}
    if not all(isinstance(hold[key], str) for key in ("by", "reason", "at")):
        raise TypeError
    for name, fingerprint in hold["spans"]:
        if not (isinstance(name, str) and isinstance(fingerprint, str)):
            raise TypeError
    return hold


def put_hold(
    root: Root, *, reason: str, by: str, at: datetime.datetime, spans: Sequence[Sequence[str]] = ()
) -> None:
    """Holds retraining; if it is held already, the earlier reason stays.

    Args:
      by: "a person" or "drift".
      spans: name and fingerprint of each span that a person should check.
    """
    if why_on_hold(root):
        return
    add_entry(root.audit, "held", at=at, reason=reason, by=by, spans=spans)
    files.write_json(
        root.hold, {"at": at.isoformat(), "by": by, "reason": reason, "spans": [list(each) for each in spans]}
    )
    files.synchronise(root.path)


def release_hold(root: Root, *, reason: str, at: datetime.datetime) -> dict:
    """Ends the hold, and accepts its spans; returns the hold.

    Raises:
      InputError: nothing is held.
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
    """Returns name and fingerprint of each span that a person accepted, from entries of the audit log."""
    return {tuple(span) for entry in entries if entry["act"] == RELEASED for span in entry.get("spans", [])}

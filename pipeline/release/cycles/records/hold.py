"""HOLD: while the file is there, nothing is trained or published."""

import datetime
import json
from collections.abc import Mapping, Sequence

from pipeline.data import atomic_files, ordinary_files
from pipeline.data.errors import InputError
from pipeline.release.cycles.records import audit
from pipeline.release.cycles.records.receipts import fsync_folder
from pipeline.release.cycles.records.root import Root

RELEASED = "released"


def why(root: Root) -> dict | None:
    """Why it is held: {"at", "by", "reason", …}; None where it is not. A file of a person's counts too."""
    try:
        text = ordinary_files.read_bytes(root.hold).decode(errors="replace")
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


def put(
    root: Root, *, reason: str, by: str, at: datetime.datetime, spans: Sequence[Sequence[str]] = ()
) -> None:
    """Holds; where it is held already, that reason stays.

    Args:
      by: "a person" or "drift".
      spans: name and fingerprint of each span that a person should look at.
    """
    if why(root):
        return
    audit.add(root.audit, "held", at=at, reason=reason, by=by, spans=spans)
    atomic_files.write_json(
        root.hold, {"at": at.isoformat(), "by": by, "reason": reason, "spans": [list(each) for each in spans]}
    )
    fsync_folder(root.path)


def release(root: Root, *, reason: str, at: datetime.datetime) -> dict:
    """Ends the hold, and accepts the spans it was for; returns why it was held.

    Raises:
      InputError: it is not held.
    """
    held = why(root)
    if held is None:
        raise InputError(
            f"{root.hold}",
            received="no such file: nothing is held",
            expected="a retraining that is held",
            action="There is nothing to release; --help lists what can be done.",
        )
    audit.add(root.audit, RELEASED, at=at, reason=reason, was=held, spans=held.get("spans", []))
    root.hold.unlink()
    fsync_folder(root.path)
    return held


def accepted(entries: Sequence[dict]) -> set[tuple[str, str]]:
    """Name and fingerprint of each span that a person has let pass, of the entries of the audit log."""
    return {tuple(span) for entry in entries if entry["act"] == RELEASED for span in entry.get("spans", [])}

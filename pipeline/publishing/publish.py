"""Publishes versions of a model, takes them back, rolls back, and removes old ones.

Every few seconds TensorFlow Serving looks for the highest number. It loads that version, and only then
unloads the one before. So it follows every operation here by itself:

- `publish` and `rollback` rename a whole folder to a higher number, which it loads.
- `take_back` renames the highest away, and it loads the one before. Nothing is copied, so this works on a
  full disk, too.
- `collect` removes lower numbers, which it no longer serves.

Its policy has to be `latest`, the default.
"""

import pathlib
import re
from collections.abc import Callable, Collection, Mapping

from pipeline.base.errors import InputError
from pipeline.publishing import journal as journal_lib
from pipeline.publishing import staging, versions
from pipeline.publishing.journal import Journal

_CYCLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # the cycle is part of a folder's name
_DAMAGED = "its files are not those that were published"


def publish(
    export: pathlib.Path,
    directory: pathlib.Path,
    *,
    cycle: str,
    documents: Mapping[str, bytes] = {},
    at: str,
    verify: Callable[[pathlib.Path], None] | None = None,
) -> int:
    """Publishes an export as the next version of `directory`; returns its number.

    A cycle has one version: publishing it again returns that one, unless it was damaged or collected since.

    Args:
      cycle: the id of the cycle that made the export.
      documents: files beside the model, content by name, such as MODEL_CARD.md.
      at: the time, ISO 8601.
      verify: is called with the whole folder before it gets its number; an exception stops the publication.

    Raises:
      InputError: the export is damaged, or the cycle was taken back or rolled back.
      TryAgainError: another process writes to `directory`, or the disk is full.
    """
    _check_cycle(cycle)
    with staging.settled(directory) as journal:
        _check_not_barred(journal, cycle, directory)
        before = [version for version in journal.of_cycle(cycle) if version in versions.numbers(directory)]
        if sound := [version for version in before if versions.is_sound(directory, version)]:
            return sound[-1]
        number = journal.next_version
        _check_number(directory, number)
        with staging.staged_folder(directory, cycle) as staged:
            staging.stage_export(export, staged, documents=documents, version=number, cycle=cycle, at=at)
            if verify is not None:
                verify(staged)
        journal = journal.with_version(number, cycle=cycle, at=at, staged=staged.name)
        staging.commit(directory, journal.without(before, reason=_DAMAGED, at=at, barred=False))
        return number


def take_back(directory: pathlib.Path, version: int, *, reason: str, at: str) -> int | None:
    """Moves a bad version to .quarantine; its cycle is never published again. Returns the newest version.

    The version before is the newest then. If that one is damaged, the newest sound one is published again,
    above it. Returns None where no version is left.

    Raises:
      InputError: there never was such a version.
      TryAgainError: another process writes to `directory`, or the disk is full.
    """
    with staging.settled(directory) as journal:
        if version not in journal.known:
            raise _no_such(directory, version, "no version of that number")
        known = journal.known[version]
        if not known.barred or known.aside == journal_lib.UNRECORDED:
            gone = sorted({version, *journal.of_cycle(known.cycle)})
            journal = staging.move_away(directory, journal.without(gone, reason=reason, at=at, barred=True))
        return _lead_with_a_sound_one(directory, journal, at=at)


def rollback(directory: pathlib.Path, *, to: int, reason: str, at: str) -> int:
    """Publishes the bytes of version `to` again under a higher number, which is returned.

    Versions above `to` move to .quarantine; their cycles are never published again. Nothing happens if the
    newest version has these bytes already.

    Raises:
      InputError: `to` is not published, or damaged.
      TryAgainError: another process writes to `directory`, or the disk is full.
    """
    with staging.settled(directory) as journal:
        if to not in versions.versions(directory):
            raise _no_such(directory, to, "one that is not published, or damaged")
        if not versions.is_sound(directory, to):
            raise _no_such(directory, to, "one whose bytes are not those that were published")
        newest = _serving(directory, journal, to)
        return newest or _publish_again(directory, journal, to=to, reason=reason, at=at, barred=True)


def give_up(directory: pathlib.Path, *, at: str) -> list[int]:
    """If no version is sound, moves all to .quarantine; returns them. Their cycles may be published again.

    Raises:
      InputError: a version is sound.
      TryAgainError: another process writes to `directory`.
    """
    with staging.settled(directory) as journal:
        if any(versions.is_sound(directory, number) for number in versions.numbers(directory)):
            raise _no_such(directory, 0, "0, which means that no version is sound")
        gone = [number for number, known in journal.known.items() if known.cycle and not known.aside]
        staging.commit(directory, journal.without(gone, reason=_DAMAGED, at=at, barred=False))
        return gone


def collect(directory: pathlib.Path, *, keep: int, protected: Collection[int] = ()) -> list[int]:
    """Removes all but the newest `keep` versions and those in `protected`; returns the removed ones.

    The newest `keep` in .quarantine also stay. Versions that were not published here are not touched.

    Raises:
      InputError: `keep` is less than one.
      TryAgainError: another process writes to `directory`.
    """
    if keep < 1:
        raise InputError(
            "versions to keep",
            received=keep,
            expected="at least 1: the newest is served",
            action="Correct it.",
        )
    with staging.settled(directory) as journal:
        journal_lib.save(directory, journal)  # saved first, so that removed versions are known afterwards
        there = versions.versions(directory)
        ours = {number for number, known in journal.known.items() if known.cycle}
        oldest_kept = there[-keep:][0] if there else 0
        older = [number for number in versions.numbers(directory) if number < oldest_kept]
        gone = [number for number in older if number in ours and number not in protected]
        for number in gone:
            staging.remove(directory, str(number))
        for number in versions.numbers(directory / journal_lib.QUARANTINE)[:-keep]:
            if number not in protected:
                staging.remove(directory, f"{journal_lib.QUARANTINE}/{number}")
        return gone


def quarantined(directory: pathlib.Path) -> dict[str, str]:
    """Returns the cycles that may not be published again, with the reasons."""
    return journal_lib.load(directory).barred


def set_aside(directory: pathlib.Path) -> set[int]:
    """Returns the versions that were taken back, or set aside when an older one was published again."""
    return {number for number, known in journal_lib.load(directory).known.items() if known.aside}


def _publish_again(
    directory: pathlib.Path, journal: Journal, *, to: int, reason: str, at: str, barred: bool
) -> int:
    """Publishes the bytes of version `to` as the next one, and sets aside those between; returns the number.

    Args:
      barred: whether the cycles of the versions between, except the cycle of `to`, may never be published
        again.
    """
    above, number = journal.above(to), journal.next_version
    with staging.staged_folder(directory, f"version-{number}") as staged:
        staging.stage_again(
            directory,
            staged,
            to=to,
            version=number,
            instead_of=max([to, *above]),
            reason=reason,
            at=at,
        )
    cycle = journal.known[to].cycle
    same = {*above}.intersection(journal.of_cycle(cycle))
    journal = journal.with_version(number, cycle=cycle, at=at, staged=staged.name)
    journal = journal.without(sorted(same), reason=reason, at=at, barred=False)
    staging.commit(directory, journal.without(sorted({*above} - same), reason=reason, at=at, barred=barred))
    return number


def _serving(directory: pathlib.Path, journal: Journal, to: int) -> int | None:
    """Returns the newest version if it is sound and has the bytes of `to`; otherwise None."""
    newest = max([to, *journal.above(to)])
    if newest not in {to, *journal.of_cycle(journal.known[to].cycle)} or not versions.is_sound(
        directory, newest
    ):
        return None
    files = (versions.published(directory, version)["files"] for version in (newest, to))
    return newest if len({*map(repr, files)}) == 1 else None


def _lead_with_a_sound_one(directory: pathlib.Path, journal: Journal, *, at: str) -> int | None:
    """Returns the newest version, after publishing it again if one above it is damaged or gone."""
    there = reversed(versions.numbers(directory))
    sound = next((number for number in there if versions.is_sound(directory, number)), None)
    if sound is None or not journal.above(sound):
        return sound
    return _publish_again(directory, journal, to=sound, reason=_DAMAGED, at=at, barred=False)


def _check_cycle(cycle: str) -> None:
    if not _CYCLE.fullmatch(cycle):
        raise InputError(
            "cycle",
            received=repr(cycle),
            expected="letters, digits, '.', '_' and '-', up to 200",
            action="Give the cycle such an id.",
        )


def _check_number(directory: pathlib.Path, number: int) -> None:
    """Raises InputError for a number that no server can read."""
    if number > versions.LARGEST:
        raise InputError(
            f"versions in {directory}",
            received=f"version {number - 1}, the largest that there can be",
            expected=f"room for another version below {versions.LARGEST:,}",
            action="Something put it there: move it away.",
        )


def _check_not_barred(journal: Journal, cycle: str, directory: pathlib.Path) -> None:
    if cycle in journal.barred:
        raise InputError(
            f"cycle {cycle}",
            received=f"one that was withdrawn from {directory}: {journal.barred[cycle]}",
            expected="a cycle that was not",
            action="Train another one.",
        )


def _no_such(directory: pathlib.Path, version: int, received: str) -> InputError:
    there = ", ".join(map(str, versions.versions(directory))) or "there is none"
    return InputError(
        f"version {version} of {directory}",
        received=received,
        expected=f"one of those that are published: {there}",
        action="Name one of them.",
    )

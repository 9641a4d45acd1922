"""Old bytes under a new, higher number: what rolling back is, and what follows where a version is damaged."""

import pathlib

from pipeline.release.publish import staging, versions
from pipeline.release.publish.journal import Journal
from pipeline.release.publish.writing import commit, staged_folder

DAMAGED = "its files are not those that were published"


def publish_again(
    directory: pathlib.Path, journal: Journal, *, to: int, reason: str, at: str, barred: bool
) -> int:
    """Publishes the bytes of version `to` as the next one, then sets aside those between; returns the number.

    Args:
      barred: whether cycles of those between may never be published again, but for that of `to` itself.
    """
    above, number = journal.above(to), journal.next_version
    with staged_folder(directory, f"version-{number}") as staged:
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
    commit(directory, journal.without(sorted({*above} - same), reason=reason, at=at, barred=barred))
    return number


def serving(directory: pathlib.Path, journal: Journal, to: int) -> int | None:
    """The newest version, if it is sound and has the bytes of `to`; otherwise None."""
    newest = max([to, *journal.above(to)])
    if newest not in {to, *journal.of_cycle(journal.known[to].cycle)} or not versions.is_sound(
        directory, newest
    ):
        return None
    files = (versions.published(directory, version)["files"] for version in (newest, to))
    return newest if len({*map(repr, files)}) == 1 else None


def lead_with_a_sound_one(directory: pathlib.Path, journal: Journal, *, at: str) -> int | None:
    """Returns the newest version; first publishes it again if one above it is damaged or has disappeared."""
    there = reversed(versions.numbers(directory))
    sound = next((number for number in there if versions.is_sound(directory, number)), None)
    if sound is None or not journal.above(sound):
        return sound
    return publish_again(directory, journal, to=sound, reason=DAMAGED, at=at, barred=False)

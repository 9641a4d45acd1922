"""Writers that are paused, taken over and woken; and eight that come at once."""

import collections
import itertools
import os
import pathlib
import random
import shutil
import signal

from pipeline.publishing import publish
from tests.shared import forked
from tests.store import kills, oracle, writer


def paused(folder: pathlib.Path, *, draw: random.Random) -> tuple[int, int, list[str]]:
    """A writer of version 2 is stopped (SIGSTOP) ahead of each request, in turn, until another has taken over
    and finished: version 2 was taken back meanwhile. Then it is woken.

    Returns how often it was paused, how often it gave up (75) and what was wrong.
    """
    before = folder / "before"
    for number in (1, 2):
        publish.publish(
            writer.write_export(folder / f"export-{number}", draw), before, cycle=f"c{number}", at=kills.AT
        )
    after = shutil.copytree(before, folder / "after")
    publish.take_back(after, 2, reason="NaN", at=kills.AT)
    first, gave_up, faults = 3, 0, []  # behind the listing, the look at the marker and what claims it
    for count in itertools.count(first):
        oracle.clear()
        prefix = f"paused/{folder.name}/{count}"
        writer.follow_at_last(after, prefix)

        def pause(number: int, count: int = count) -> None:
            if number == count:
                os.kill(os.getpid(), signal.SIGSTOP)

        child = forked.start(
            lambda prefix=prefix, pause=pause: writer.follow_or_exit(before, prefix, before=pause),
            folder / "process",
        )
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break  # it made fewer requests
        had_committed = 2 in oracle.loadable(oracle.listed(prefix))
        writer.follow_at_last(after, prefix)
        os.kill(child, signal.SIGCONT)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        gave_up += code == writer.TRY_AGAIN
        if code not in (0, writer.TRY_AGAIN) or (code == 0 and not had_committed):
            faults.append(f"paused ahead of request {count}: exit code {code}")
        if oracle.loadable(oracle.listed(prefix)) != [1]:
            faults.append(f"paused ahead of request {count}: it made a version when it woke")
        faults += oracle.faults(prefix)
        writer.follow_at_last(after, prefix)
        faults += [
            f"paused ahead of request {count}: {name} is left" for name in oracle.unlike(prefix, after)
        ]
    return count - first, gave_up, faults


def at_once(
    folder: pathlib.Path, *, writers: int, draw: random.Random
) -> tuple[collections.Counter, list[str]]:
    """Exit codes of processes that all publish three versions at once, and what was wrong."""
    directory = folder / "serving"
    for number in (1, 2, 3):
        publish.publish(
            writer.write_export(folder / f"export-{number}", draw), directory, cycle=f"c{number}", at=kills.AT
        )
    children = [
        forked.start(lambda: writer.follow_or_exit(directory, "at-once"), folder / f"process-{number}")
        for number in range(writers)
    ]
    codes = collections.Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    faults = oracle.faults("at-once")
    codes["told to try again later"] = writer.follow_at_last(directory, "at-once")
    faults += [f"eight at once: {name}" for name in oracle.unlike("at-once", directory)]
    if not codes[0] or set(codes) - {0, writer.TRY_AGAIN, "told to try again later"}:
        faults.append(f"eight at once: exit codes {dict(codes)}")
    return codes, faults

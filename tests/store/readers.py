"""A reader that lists a place and downloads its newest version, over and over, while versions come and go."""

import collections
import json
import pathlib
import random
import select
import subprocess
import sys

from tests.publishing import story
from tests.store import oracle, writer

PREFIX = "read"


def read_until_told() -> None:
    """Prints counts and faults as JSON when a line comes on stdin."""
    counts: collections.Counter = collections.Counter()
    seen, faults = set(), []
    while not select.select([sys.stdin], [], [], 0)[0]:
        names = oracle.listed(PREFIX)
        there = oracle.loadable(names)
        if not there:
            continue
        graph = f"{there[-1]}/{oracle.GRAPH}"
        try:
            found = list(oracle.faults_of(PREFIX, there[-1], names))
        except FileNotFoundError as error:
            # It may go while it is read: then its first object has gone.
            if oracle.listed(PREFIX).get(graph) == names[graph]:
                faults.append(f"version {there[-1]} can be loaded, and lacks {error}")
            counts["gone while read"] += 1
            continue
        faults += found
        counts["reads"] += 1
        seen.add(there[-1])
    counts["versions"] = len(seen)
    print(json.dumps({"counts": counts, "faults": faults}))


def check(folder: pathlib.Path, *, publishes: int, draw: random.Random) -> tuple[dict, dict, list[str]]:
    """Acts by verb, what the reader counted, and what was wrong."""
    exports, directory = folder / "exports", folder / "serving"
    for number in range(1, publishes + 1):
        writer.write_export(exports / story.cycle(number), draw)
    reader = subprocess.Popen(
        [sys.executable, "-m", "tests.store.readers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    acts: collections.Counter = collections.Counter()
    for act in story.acts(directory, publishes=publishes, draw=draw):
        story.make(act, directory, exports)
        writer.follow_at_last(directory, PREFIX)
        acts[act.verb] += 1
    said = json.loads(reader.communicate("end\n")[0])
    faults = said["faults"] + [f"at the end: {name}" for name in oracle.unlike(PREFIX, directory)]
    return acts, said["counts"], faults


if __name__ == "__main__":
    read_until_told()

"""Says how the demo of retraining went, and fails where its history is another than the one expected.

python demo/history.py --root=build/demo-retrain --seconds=120
"""

import json
import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags

_ROOT = flags.DEFINE_string("root", None, "The folder of the retraining.", required=True)
_SECONDS = flags.DEFINE_float("seconds", None, "How long the demo took.", required=True)

EXPECTED = ("published 1", "published 2", "held", "released", "published 3")


def history(log: Sequence[str]) -> tuple[str, ...]:
    """What became of what is served, from the lines of the audit log."""
    entries = [json.loads(line) for line in log]
    operations = ("published", "rolled_back", "taken_back", "held", "released")
    return tuple(f"{e['act']} {e.get('version', '')}".strip() for e in entries if e["act"] in operations)


def main(argv: Sequence[str]) -> int:
    del argv
    root = pathlib.Path(_ROOT.value)
    found = history((root / "audit.jsonl").read_text().splitlines())
    print(f"\nhistory        {', '.join(found)}")
    print(f"what is served {root}/serving/tips/3")
    print(f"reports        {root}/status.html and {root}/cycles/*/report.html")
    print(f"time           {_SECONDS.value:.0f} s")
    if found == EXPECTED:
        return 0
    print(f"error: the history is not the one expected: {', '.join(EXPECTED)}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    app.run(main)

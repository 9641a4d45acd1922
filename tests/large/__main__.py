"""Opens and reads datasets that are larger than any test's, and holds the figures to their bounds.

  python -m tests.large --scratch=build/large

The datasets take 3 GB, and stay for the next time. Exits with 1 where a bound is exceeded.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from tests.large import synthetic
from tests.large.measured import MEASURES

_MADE = {"billion": synthetic.billion, "many": synthetic.many_shards, "photographs": synthetic.photographs}
_BOUNDS = {
    ("a billion rows, opened", "s"): 5.0,
    ("a billion rows, opened", "MiB"): 1024.0,
    ("a billion rows, read", "MiB more"): 1024.0,
    ("10,000 damaged records left out", "s"): 2.0,
    ("100,000 shards, opened", "s"): 20.0,
    ("100,000 shards, scanned", "KiB read again"): 64.0,
}
_MIXTURE_TO_ONE = 1.3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("build/large"))
    scratch = parser.parse_args().scratch
    for name, make in _MADE.items():
        if not (scratch / name / "manifest.json").exists():
            print(f"making {scratch / name}", flush=True)
            make(scratch / name)
    found = {name: _measured(name, scratch) for name in MEASURES}
    ratio = found["photographs, a mixture"]["MiB"] / found["photographs, one stream"]["MiB"]
    rows = [(*key, found[key[0]][key[1]], bound) for key, bound in _BOUNDS.items()]
    rows.append(("photographs, a mixture", "to one stream", ratio, _MIXTURE_TO_ONE))
    print(f"\n{'':34} {'':14} {'found':>9} {'bound':>9}")
    for name, unit, value, bound in rows:
        print(f"{name:34} {unit:14} {value:9,.2f} {bound:9,.2f}{'' if value <= bound else '  EXCEEDED'}")
    return int(any(value > bound for *_, value, bound in rows))


def _measured(name: str, scratch: pathlib.Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.large.measured", name, str(scratch)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = json.loads(output.splitlines()[-1])
    print(f"{name}: {', '.join(f'{value:,.1f} {unit}' for unit, value in found.items())}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())

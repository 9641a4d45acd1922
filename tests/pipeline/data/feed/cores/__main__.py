"""Does the certificate of one number of cores tell what another gives? Eight pipelines, on 1 core and on 2.

  make certificate-check

Each is certified on both, one right after the other, in several rounds. Either certificate has to predict the
rate on the other number within 20%, name the stage that is the limit there, and promise no number of cores
that does not keep it: by the median of the rounds, or in most of them. Beside that stands what a guess says
that knows no stages: rates in proportion to the cores. A slowed disk has to be found behind the page cache.
Exits with 1 where one is not so.

The data and what was measured stay in --folder: cut short, it goes on there; to measure again, remove it.
--only=NAME, which repeats, measures some of them; --odd, pipelines that scale badly, whose promises have to
be kept. On a busy machine the figures are those of its neighbours, too.
"""

import argparse
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Sequence

from pipeline.feed.certificate import Certificate
from tests.pipeline.data.feed.cores.foretold import NEAR, Foretold, row
from tests.pipeline.data.feed.cores.results import EIGHT, NAMES, ODD, SLOW_DISK, file_of
from tests.shared.table import show

CORES = (1, 2)


def measure(folder: pathlib.Path, names: Sequence[str], *, rounds: int, seconds: float) -> None:
    """Measures what is not yet in `folder`, each in a process, which has so many cores from its start."""
    for number in range(rounds):
        for name in names:
            for cores in CORES:
                if file_of(folder, cores, name, number).exists():
                    continue
                command = (sys.executable, "-m", "tests.pipeline.data.feed.cores.measured")
                arguments = (folder, str(cores), str(seconds), str(number), name)
                subprocess.run([*command, *arguments], check=True)


def found(folder: pathlib.Path, cores: int, name: str, number: int) -> Certificate | None:
    """None of a disk that cannot be throttled here."""
    return pickle.loads(file_of(folder, cores, name, number).read_bytes())


def foretold(folder: pathlib.Path, cores: Sequence[int], name: str, *, rounds: int) -> list[Foretold]:
    """Of each round, the certificates on these two numbers of cores."""
    pairs = [[found(folder, some, name, number) for some in cores] for number in range(rounds)]
    return [Foretold(known=known, there=there) for known, there in pairs]


def disk_row(cores: int, certificate: Certificate) -> dict[str, object]:
    """Of the slow disk: starved because of it, while the page cache would feed."""
    warm, cold = certificate.together, certificate.cold
    is_slower = cold.examples_per_s < warm.examples_per_s / 2
    is_right = is_slower and certificate.limiting is cold and not certificate.is_fed
    return {
        "slow disk on": f"{cores} cores",
        "page cache": f"{warm.examples_per_s:,.0f}/s",
        "from disk": f"{cold.examples_per_s:,.0f}/s",
        "MB/s of records": f"{cold.examples_per_s * (4 << 10) / 1e6:.1f}",
        "held": f"{certificate.files.resident:.0%}",
        "verdict": certificate.verdict,
        "limit": certificate.limiting.name,
        "": "right" if is_right else "WRONG",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each stage is measured")
    parser.add_argument("--rounds", type=int, default=6, help="how often each pipeline is certified")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/certificate-check"))
    parser.add_argument("--only", action="append", choices=(*NAMES, *ODD), help="by default the eight")
    parser.add_argument("--odd", action="store_true", help="those that scale badly")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds: received {args.rounds}; expected 1 or more.")
    names = args.only or (ODD if args.odd else NAMES)
    args.folder.mkdir(parents=True, exist_ok=True)
    pipelines = [name for name in names if name != SLOW_DISK]
    measure(args.folder, pipelines, rounds=args.rounds, seconds=args.seconds)
    pairs = [
        (name, foretold(args.folder, cores, name, rounds=args.rounds))
        for name in pipelines
        for cores in (CORES, CORES[::-1])
    ]
    rows = [row(name, rounds, promises_alone=name not in EIGHT) for name, rounds in pairs]
    disk_rows = []
    if SLOW_DISK in names:
        measure(args.folder, [SLOW_DISK], rounds=1, seconds=args.seconds)
        disks = [(cores, found(args.folder, cores, SLOW_DISK, 0)) for cores in CORES]
        disk_rows = [disk_row(cores, one) for cores, one in disks if one]
        if len(disk_rows) < len(disks):
            print("slow disk: not checked, as it cannot be throttled here")
    for some in filter(None, (rows, disk_rows)):
        show(some)
    alone = [abs(one.ratio - 1) <= NEAR for name, rounds in pairs for one in rounds if name in EIGHT]
    if alone:
        print(f"single certificates within {NEAR:.0%}: {sum(alone)} of {len(alone)}")
    return 0 if all(each[""] == "right" for each in (*rows, *disk_rows)) else 1


if __name__ == "__main__":
    sys.exit(main())

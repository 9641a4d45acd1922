"""Does the certificate of one number of cores tell what another gives? Eight pipelines, on 1 core and on 2.

  make certificate-check

Each is certified on both. Either certificate has to predict the rate on the other number within 20%, name the
stage that is the limit there, and promise no number of cores that does not keep it. A slowed disk has to be
found behind the page cache. Exits with 1 where one is not so.

The data and what was measured stay in --folder: cut short, it goes on there. --only=NAME, which repeats,
measures some of them; --odd, pipelines that scale badly, whose promises have to be kept. On a busy machine
the figures are those of its neighbours, too.
"""

import argparse
import pathlib
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence

from pipeline.data.feed.certificate import MARGIN, Certificate
from tests.pipeline.data.feed.cores.results import EIGHT, NAMES, ODD, SLOW_DISK, file_of
from tests.shared.table import show

CORES = (1, 2)
NEAR = 0.2
AS_SLOW = 1.2  # times the rate of the slowest stage: which of the two is the limit is a toss
# Of what was measured where it was certified, what training is made to need.
NEEDS = (0.4, 0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, 2.2, 3.0)


def measure(folder: pathlib.Path, names: Sequence[str], *, seconds: float) -> None:
    """Measures what is not yet in `folder`, each number of cores in a process of its own."""
    for cores in CORES:
        missing = [name for name in names if not file_of(folder, cores, name).exists()]
        if missing:
            command = (sys.executable, "-m", "tests.pipeline.data.feed.cores.measured")
            subprocess.run([*command, folder, str(cores), str(seconds), *missing], check=True)


def found(folder: pathlib.Path, cores: int, name: str) -> Certificate | None:
    """None of a disk that cannot be throttled here."""
    return pickle.loads(file_of(folder, cores, name).read_bytes())


def most_of(certificate: Certificate) -> float:
    """Examples a second, where other processes took cores with what they took given back.

    That is more than these cores would give where stages wait for each other, and what was measured is less.
    """
    together = certificate.together
    is_shared = certificate.host.is_shared
    return together.attainable(certificate.host.cores) if is_shared else together.examples_per_s


def nearest(predicted: float, certificate: Certificate) -> float:
    """Of what these cores may give, what is nearest."""
    return min(max(predicted, certificate.together.examples_per_s), most_of(certificate))


def broken(known: Certificate, there: Certificate) -> Iterator[str]:
    """Promises of `known` that the cores of `there` do not keep, whatever others took of them."""
    for times in NEEDS:
        needed = times * most_of(known)
        cores = known.scaling.cores_for(MARGIN * needed)
        if cores is not None and cores <= there.host.cores and most_of(there) < needed:
            yield f"{cores} give {times:g}x"
        least = there.together.examples_per_s
        if known.scaling.stuck(MARGIN * needed) and least > MARGIN * MARGIN * needed:
            yield f"none gives {times:g}x"


def row(name: str, known: Certificate, there: Certificate) -> dict[str, object]:
    predicted = known.scaling.rate(there.host.cores)
    rate = nearest(predicted, there)
    limit = known.scaling.limiting(there.host.cores).name
    slowest = there.scaling.rate_of(there.limiting, there.host.cores)
    may_be = [
        line.name
        for line in there.stages
        if there.scaling.rate_of(line, there.host.cores) <= AS_SLOW * slowest
    ]
    promises = "; ".join(broken(known, there))
    is_foretold = abs(predicted / rate - 1) <= NEAR and limit in may_be
    is_right = not promises and (is_foretold or name not in EIGHT)
    return {
        "pipeline": name,
        "certified on": f"{known.host.cores:g}",
        "measured on": f"{there.host.cores:g}",
        "predicted": f"{predicted:,.0f}/s",
        "found": f"{there.together.examples_per_s:,.0f}/s",
        "without others": f"{most_of(there):,.0f}/s",
        "ratio": f"{predicted / rate:.2f}",
        "beside": f"{there.host.others_cores:.1f} cores",
        "limit": limit,
        "there": there.limiting.name,
        "broken": promises or "none",
        "": "right" if is_right else "WRONG",
    }


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
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each stage is measured")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/certificate-check"))
    parser.add_argument("--only", action="append", choices=(*NAMES, *ODD), help="by default the eight")
    parser.add_argument("--odd", action="store_true", help="those that scale badly")
    args = parser.parse_args()
    names = args.only or (ODD if args.odd else NAMES)
    args.folder.mkdir(parents=True, exist_ok=True)
    measure(args.folder, names, seconds=args.seconds)
    rows = [
        row(name, found(args.folder, one, name), found(args.folder, other, name))
        for name in names
        if name != SLOW_DISK
        for one, other in (CORES, CORES[::-1])
    ]
    disks = [(cores, found(args.folder, cores, SLOW_DISK)) for cores in CORES if SLOW_DISK in names]
    disk_rows = [disk_row(cores, one) for cores, one in disks if one]
    for some in filter(None, (rows, disk_rows)):
        show(some)
    if len(disk_rows) < len(disks):
        print("slow disk: not checked, as it cannot be throttled here")
    return 0 if all(each[""] == "right" for each in (*rows, *disk_rows)) else 1


if __name__ == "__main__":
    sys.exit(main())

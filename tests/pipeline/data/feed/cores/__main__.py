"""Does the certificate of one number of cores tell what another gives? Eight pipelines, on 1 core and on 2.

  make certificate-check

Each is certified on both. Either certificate has to predict the rate on the other number within 20%, name the
stage that is the limit there, and promise no number of cores that does not keep it. A slowed disk has to be
found behind the page cache. Exits with 1 where one is not so.
"""

import argparse
import pathlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from pipeline.data.feed.certificate import MARGIN, Certificate
from tests.shared.table import show

CORES = (1, 2)
NEAR = 0.2
AS_SLOW = 1.2  # times the rate of the slowest stage: which of the two is the limit is a toss
# Of what was measured where it was certified, what training is made to need.
NEEDS = (0.4, 0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, 2.2, 3.0)


def certificates(cores: int, seconds: float) -> Mapping[str, Certificate]:
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / "certificates"
        command = (sys.executable, "-m", "tests.pipeline.data.feed.cores.measured")
        subprocess.run([*command, file, str(cores), str(seconds)], check=True)
        return pickle.loads(file.read_bytes())


def rate_of(certificate: Certificate) -> float:
    """Examples a second, where other processes took cores with what they took given back."""
    if certificate.host.is_shared:
        return certificate.together.attainable(certificate.host.cores)
    return certificate.together.examples_per_s


def broken(known: Certificate, there: Certificate) -> Iterator[str]:
    """Promises of `known` that what was measured on the cores of `there` does not keep."""
    for times in NEEDS:
        needed = times * rate_of(known)
        cores = known.scaling.cores_for(MARGIN * needed)
        if cores is not None and cores <= there.host.cores and rate_of(there) < needed:
            yield f"{cores} give {times:g}x"
        if cores is None and rate_of(there) > MARGIN * MARGIN * needed:
            yield f"none gives {times:g}x"


def row(name: str, known: Certificate, there: Certificate) -> dict[str, object]:
    predicted, found = known.scaling.rate(there.host.cores), rate_of(there)
    limit = known.scaling.limiting(there.host.cores).name
    slowest = there.scaling.rate_of(there.limiting, there.host.cores)
    may_be = [
        line.name
        for line in there.stages
        if there.scaling.rate_of(line, there.host.cores) <= AS_SLOW * slowest
    ]
    promises = "; ".join(broken(known, there))
    is_right = abs(predicted / found - 1) <= NEAR and limit in may_be and not promises
    return {
        "pipeline": name,
        "certified on": f"{known.host.cores:g}",
        "measured on": f"{there.host.cores:g}",
        "predicted": f"{predicted:,.0f}/s",
        "found": f"{found:,.0f}/s",
        "ratio": f"{predicted / found:.2f}",
        "raw": f"{there.together.examples_per_s:,.0f}/s",
        "beside": f"{there.host.others_cores:.1f} cores",
        "limit": limit,
        "there": there.limiting.name,
        "broken": promises or "none",
        "": "right" if is_right else "WRONG",
    }


def disk_row(cores: int, found: Certificate) -> dict[str, object]:
    """Of the slow disk: starved because of it, while the page cache would feed."""
    warm, cold = found.together, found.cold
    is_right = cold.examples_per_s < warm.examples_per_s / 2 and found.limiting is cold and not found.is_fed
    return {
        "slow disk on": f"{cores} cores",
        "page cache": f"{warm.examples_per_s:,.0f}/s",
        "from disk": f"{cold.examples_per_s:,.0f}/s",
        "MB/s of records": f"{cold.examples_per_s * (4 << 10) / 1e6:.1f}",
        "held": f"{found.files.resident:.0%}",
        "verdict": found.verdict,
        "limit": found.limiting.name,
        "": "right" if is_right else "WRONG",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each stage is measured")
    seconds = parser.parse_args().seconds
    found = {cores: certificates(cores, seconds) for cores in CORES}
    disks = [disk_row(cores, each["slow disk"]) for cores, each in found.items() if "slow disk" in each]
    rows = [
        row(name, found[one][name], found[other][name])
        for name in found[CORES[0]]
        if name != "slow disk"
        for one, other in (CORES, CORES[::-1])
    ]
    show(rows)
    if disks:
        show(disks)
    else:
        print("slow disk: not checked, as it cannot be throttled here")
    return 0 if all(each[""] == "right" for each in (*rows, *disks)) else 1


if __name__ == "__main__":
    sys.exit(main())

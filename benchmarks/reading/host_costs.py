"""What many hosts pay and read beside one: the ways of reading, the hosts that are played, the verdict."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

MOST_COST, MOST_BYTES = 1.3, 1.2  # times
PLAYED = 4  # hosts of many


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A way of reading."""

    name: str
    layout: str
    shuffle: str
    examples: int = 1 << 19  # that a measurement reads


CASES = (
    Case(name="windows of rows", layout="rows", shuffle="windows"),
    Case(name="windows of blocks", layout="blocks", shuffle="windows"),
    Case(name="mapped", layout="blocks", shuffle="global", examples=1 << 20),
    Case(name="single records", layout="rows", shuffle="global", examples=1 << 15),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The cost of an example that the host trains on."""

    cpu_us: float
    bytes: float  # read, divided by the bytes that the example has in the files


def played(hosts: int) -> list[int]:
    """Some of the hosts, the first and the last among them."""
    return sorted({round(host) for host in np.linspace(0, hosts - 1, min(PLAYED, hosts))})


def verdict(found: Mapping[Case, Sequence[tuple[Measured, Measured]]]) -> tuple[str, bool]:
    """A table of (one host, one of many), and whether no limit is passed."""
    lines = [f"{'':<20}{'one':>10}{'each':>10}{'ratio':>8}{'bytes':>8}"]
    held = True
    for case, rounds in found.items():
        one, each = (statistics.median(pair[i].cpu_us for pair in rounds) for i in (0, 1))
        ratio = statistics.median(many.cpu_us / alone.cpu_us for alone, many in rounds)
        read = statistics.median(many.bytes for _, many in rounds)
        lines.append(f"{case.name:<20}{one:10.3f}{each:10.3f}{ratio:8.2f}{read:8.2f}")
        held = held and ratio <= MOST_COST and read <= MOST_BYTES
    return "\n".join(lines), held

"""The hosts that feed a slice of TPUs, or any other number of accelerators.

The chips of a host and the vCPUs of its machine type are from Google's pages "TPU v5e", "TPU v6e", "TPU v5p"
and "TPU v4" (cloud.google.com/tpu/docs), and "Plan TPUs in GKE"
(cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus).
"""

import dataclasses
import re

from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slice:
    name: str
    hosts: int = 1
    replicas: int = 1  # on all hosts
    host_cores: int | None = None  # None: not known


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Generation:
    """A host has `chips` chips and `cores` vCPUs; up to `alone` chips share a host of `alone_cores`."""

    chips: int
    cores: int
    alone: int
    alone_cores: int
    cores_a_chip: int = 1  # the number in a slice's name counts these


_GENERATIONS = {
    "v4": _Generation(chips=4, cores=240, alone=4, alone_cores=240, cores_a_chip=2),
    "v5e": _Generation(chips=4, cores=112, alone=8, alone_cores=224),
    "v5p": _Generation(chips=4, cores=208, alone=4, alone_cores=208, cores_a_chip=2),
    "v6e": _Generation(chips=4, cores=180, alone=8, alone_cores=180),
}
_SMALL_HOSTS = {"v5e-1": 24, "v6e-1": 44, "v5e-4": 112}  # vCPUs of slices that are a part of a host
_ALIASES = {"v5litepod": "v5e", "v5lite": "v5e", "v6lite": "v6e"}

HERE = Slice(name="this host")


def parse(text: str) -> Slice:
    """Reads `v5e-8`, or HOSTSxREPLICAS, such as 4x8, with the replicas of a host; empty: one replica, here.

    Raises:
      InputError: it is neither.
    """
    if not text:
        return HERE
    if by_hand := re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text):
        hosts, replicas = map(int, by_hand.groups())
        if hosts and replicas:
            return Slice(name=text, hosts=hosts, replicas=hosts * replicas)
    if tpu := re.fullmatch(r"(v\w+)-([0-9]{1,9})", text.lower()):
        generation = _GENERATIONS.get(_ALIASES.get(tpu[1], tpu[1]))
        chips, rest = divmod(int(tpu[2]), generation.cores_a_chip) if generation else (0, 0)
        if generation and not rest and _is_made(generation, chips):
            return _of_chips(f"{_ALIASES.get(tpu[1], tpu[1])}-{tpu[2]}", generation, chips)
    raise InputError(
        "--slice",
        received=repr(text),
        expected="HOSTSxREPLICAS such as 4x8, or whole hosts of a TPU of "
        f"{', '.join(_GENERATIONS)} such as v5e-8",
        action="Say how many hosts there are, and how many replicas each has.",
    )


def _is_made(generation: _Generation, chips: int) -> bool:
    """Whether there are slices of so many chips: of whole hosts, or of one chip of those sold singly."""
    is_single = chips == 1 and generation.cores_a_chip == 1
    return is_single or (chips > 0 and chips % generation.chips == 0)


def _of_chips(name: str, generation: _Generation, chips: int) -> Slice:
    if chips <= generation.alone:
        cores = _SMALL_HOSTS.get(name, generation.alone_cores)
        return Slice(name=name, replicas=chips, host_cores=cores)
    return Slice(name=name, hosts=-(-chips // generation.chips), replicas=chips, host_cores=generation.cores)

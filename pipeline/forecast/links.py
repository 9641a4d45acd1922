"""How long the sums over the devices of a slice take, by a model of its links: nothing is measured.

The model of an all-reduce of S bytes over n chips:

  2 (n − 1) / n · S / (links · rate) + operations · hops · 1 µs

Every chip sends all bytes except its own share, and sends them twice: once to be added, once as the sum.
`links` is how many links the chip with the fewest has. An axis that is a ring gives it two; an axis that is
a line gives one, because this chip stands at its end. `rate` is what a link carries one way. All links of
that chip are taken to be busy all the time. Each operation goes round every axis, twice.

The least is what all links of the slice together must carry, 2 (n − 1) · S, over all of them at once, in
both directions. In a slice of rings it is the same; chips within a line have more links than those at its
ends, and an order of sending that used them could be faster than the model.

An axis is a ring where links lead from its last chip to the first. That is so for an axis of 16 chips of a
v5e or v6e, and for all axes of a v4, v5p or tpu7x, if each has a multiple of 4 chips. This, and the
microsecond, are from "How To Scale Your Model" (Austin et al., Google DeepMind, 2025, parts 2 and 3). Up to 8
GPUs are taken to have a switch between them: one axis, all links busy, and no time for hops.

The two devices of a chip of a tpu7x are taken for one: what they send each other stays within the chip.
"""

import dataclasses

from pipeline.forecast.target import Target

_HOP_S = 1e-6
_FULL_AXIS = 16  # chips of an axis of a v5e or v6e that is a ring
_CUBE = 4  # chips of an axis of the cubes of which 3-D slices are built
_GPUS = 8  # that NVLink connects in one machine; beyond them lies a network that nobody has named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sums:
    """Time of a step's sums over all devices.

    Attributes:
      links: links by which the chip with the fewest sends.
      least: seconds of the bytes, if all links of the slice were busy: no step is shorter.
      transfer: seconds of the bytes over the links of the chip that has the fewest.
      latency: seconds of the hops.
    """

    bytes: int
    operations: int
    links: int
    least: float
    transfer: float
    latency: float

    @property
    def seconds(self) -> float:
        """What a step takes longer if nothing is computed meanwhile."""
        return self.transfer + self.latency


def sums(target: Target, *, size: int, operations: int) -> Sums | None:
    """The time of sums of `size` bytes; None where there are no links, or unknown ones."""
    rate, chips = target.accelerator.link_gb_per_s, target.chips
    if rate is None or chips == 1 or (not target.accelerator.is_tpu and chips > _GPUS):
        return None
    axes = [each for each in target.shape if each > 1]
    rings = _rings(target, axes)
    links = sum(2 if is_ring else 1 for is_ring in rings) or 1
    hops = sum(
        2 * (length // 2 if is_ring else length - 1) for length, is_ring in zip(axes, rings, strict=True)
    )
    # Undirected links: a line of k chips has k − 1 of them, a ring k. GPUs have one each, to their switch.
    all_links = sum(
        chips // length * (length if is_ring else length - 1)
        for length, is_ring in zip(axes, rings, strict=True)
    )
    return Sums(
        bytes=size,
        operations=operations,
        links=links,
        least=(chips - 1) * size / ((all_links or chips) * rate * 1e9),
        transfer=2 * (chips - 1) / chips * size / (links * rate * 1e9),
        latency=operations * hops * _HOP_S,
    )


def _rings(target: Target, axes: list[int]) -> list[bool]:
    """Which axes of a slice are rings."""
    if target.accelerator.axes == 2:
        return [each == _FULL_AXIS for each in axes]
    is_of_cubes = all(each % _CUBE == 0 for each in target.shape)
    return [is_of_cubes for _ in axes]

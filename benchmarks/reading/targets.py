"""What the input pipeline promises against its peers: ratios of CPU time per example."""

import dataclasses
from collections.abc import Mapping, Sequence

Cpu = Mapping[tuple[str, str], float]  # (workload, name) → CPU µs per example


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """CPU of `above` over CPU of `below`: at least or at most `limit`; one of the two is ours."""

    workload: str
    above: str
    below: str
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        limit = f"≥ {self.at_least:g}×" if self.at_least else f"≤ {self.at_most:g}×"
        return f"{self.above} / {self.below} {limit}"

    def ratio(self, cpu: Cpu) -> float | None:
        """None where one of the two was not measured."""
        above, below = (cpu.get((self.workload, name)) for name in (self.above, self.below))
        return above / below if above and below else None

    def holds(self, ratio: float) -> bool:
        return ratio >= self.at_least if self.at_least else ratio <= self.at_most


TARGETS: Sequence[Target] = (
    Target(workload="tabular", above="naive", below="ours_blocks", at_least=100),
    Target(workload="tabular", above="tfds", below="ours_blocks", at_least=100),
    Target(workload="tabular", above="batch_then_parse", below="ours_blocks", at_least=12),
    Target(workload="tabular", above="grain", below="ours_blocks", at_least=60),
    Target(workload="tabular", above="naive", below="ours_mapped", at_least=250),
    Target(workload="tabular", above="ours_mapped", below="torch_mapped", at_most=1.1),
    Target(workload="images", above="naive", below="ours_float32", at_least=1.6),
    Target(workload="images", above="torch_float32", below="ours_float32", at_least=1.6),
    Target(workload="images", above="torch_uint8", below="ours_uint8", at_least=1),
    Target(workload="images", above="ours_uint8", below="turbo_decode", at_most=1.6),
    Target(workload="tokens", above="pack_online", below="ours_blocks", at_least=10),
    Target(workload="tokens", above="ours_mapped", below="torch_mapped", at_most=1.3),
)

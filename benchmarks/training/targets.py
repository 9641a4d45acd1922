"""The targets of the training benchmark: which costs are compared, and their highest ratio."""

import dataclasses
from collections.abc import Mapping, Sequence

LONGEST = 32  # steps a loop
TORCH = "torch"  # the subject that has an environment of its own


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One thing that is measured; `constant`: on one batch again and again."""

    workload: str
    subject: str
    steps_per_loop: int
    constant: bool = False

    def __str__(self) -> str:
        batch = ", constant batch" if self.constant else ""
        return f"{self.workload}, {self.subject}, {self.steps_per_loop} a loop{batch}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """The cost of `case` is at most `limit` times that of `beside`."""

    case: Case
    beside: Case
    limit: float


def _pair(workload: str, steps_per_loop: int, limit: float) -> Target:
    ours, fit = (
        Case(workload=workload, subject=subject, steps_per_loop=steps_per_loop) for subject in ("ours", "fit")
    )
    return Target(case=ours, beside=fit, limit=limit)


def _of_both(workload: str, steps_per_loop: int) -> tuple[Target, Target]:
    """At most a twentieth more than `fit` and than torch, whose batches lie in memory."""
    beside_fit = _pair(workload, steps_per_loop, 1.05)
    torch = Case(workload=workload, subject=TORCH, steps_per_loop=1)
    return beside_fit, dataclasses.replace(beside_fit, beside=torch)


_FED = Case(workload="wide_deep", subject="ours", steps_per_loop=LONGEST)
TARGETS = (
    _pair("wide_deep", LONGEST, 0.95),
    _pair("wide_deep", 1, 1.10),
    _pair("resnet", LONGEST, 1.05),
    *_of_both("tabular", LONGEST),
    *_of_both("resnet18", 8),  # a step of it takes as long as dozens of the others
    *_of_both("transformer", LONGEST),
    Target(case=_FED, beside=dataclasses.replace(_FED, constant=True), limit=1.10),
)


def cases(workloads: Sequence[str], *, torch: bool = False) -> list[Case]:
    """What the targets of these workloads compare, each once; with `torch` its loop, too."""
    both = [case for target in TARGETS for case in (target.case, target.beside) if case.subject != TORCH]
    peers = [Case(workload=name, subject=TORCH, steps_per_loop=1) for name in workloads if torch]
    return [*dict.fromkeys(case for case in both if case.workload in workloads), *peers]


def beside_torch(costs: Mapping[Case, float]) -> list[str]:
    """A line for each workload that torch trained, but for what has a target: ours at 32 steps a loop, and on
    a constant batch.
    """
    peers = [case for case in costs if case.subject == TORCH]
    have_targets = [(target.case, target.beside) for target in TARGETS]
    return [
        f"{ours} / {peer}: {costs[ours] / costs[peer]:.3f}, no target"
        for peer in peers
        for ours in costs
        if (ours.workload, ours.subject, ours.steps_per_loop) == (peer.workload, "ours", LONGEST)
        and (ours, peer) not in have_targets
    ]


def verdicts(costs: Mapping[Case, float]) -> list[tuple[str, bool]]:
    """A line for each target of what was measured, and whether it is held."""
    found = []
    for target in TARGETS:
        if target.case in costs and target.beside in costs:
            ratio = costs[target.case] / costs[target.beside]
            held = ratio <= target.limit
            line = f"{target.case} / {target.beside}: {ratio:.3f}, at most {target.limit:.2f}"
            found.append((f"{line}: {'held' if held else 'MISSED'}", held))
    return found

"""Eight processes reconcile at once: one works, the others are told to try again."""

from collections.abc import Iterator

from tests.retraining import kills
from tests.retraining.kills import Stage

_CALLERS = 8
_TRY_AGAIN = 75


def at_once(stage: Stage) -> Iterator[str]:
    """Of a root in which a cycle is due."""
    root = stage.folder / "callers"
    kills.deliver(root, 2)
    processes = [stage.start(root, "reconcile") for _ in range(_CALLERS)]
    codes = sorted(kills.ended(process)[0] for process in processes)
    print(f"{_CALLERS} callers at once: exit codes {codes}", flush=True)
    if codes != [0, *[_TRY_AGAIN] * (_CALLERS - 1)]:
        yield f"eight callers ended with {codes}"
    if len(kills.state(root)["begun"]) != 1:
        yield f"eight callers began {kills.state(root)['begun']}"
